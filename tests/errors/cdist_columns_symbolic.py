# raises ShapeError
# says cdist: the columns of shape
# says 3
# says 5
import staticflow as sf

x = sf.placeholder((None, 3), name="x")
sf.cdist(x, sf.ones(4, 5))  # <-- error
