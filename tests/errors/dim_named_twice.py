# raises ShapeError
# says mean: a dim appears twice
import staticflow as sf

x = sf.ones(2, 3)
x.mean((0, -2))  # <-- error
