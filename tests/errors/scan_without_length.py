# raises ShapeError
# says give xs or length
import staticflow as sf

sf.scan(lambda c, x: (c, None), sf.tensor(0.0))  # <-- error
