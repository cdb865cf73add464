# raises ShapeError
# says fn gives a Tensor; it must give a tuple of two, (carry, y)
import staticflow as sf

sf.scan(lambda total, x: total + x, sf.tensor(0.0), sf.ones(3))  # <-- error
