# raises ShapeError
# says must return (carry, y), not Tensor
import staticflow as sf

sf.scan(lambda total, x: total + x, sf.tensor(0.0), sf.ones(3))  # <-- error
