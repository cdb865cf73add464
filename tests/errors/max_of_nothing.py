# raises ShapeError
# says max: the extreme of nothing
# says dim 1 of shape [3, 0]
import staticflow as sf

x = sf.ones(3, 0)
x.max()  # <-- error
