# raises ShapeError
# says cdist: the columns of shape [2, 3] and of [4, 5]
import staticflow as sf

sf.cdist(sf.ones(2, 3), sf.ones(4, 5))  # <-- error
