# raises ShapeError
# says cartesian_prod: takes vectors, not shape [2, 3]
# says x.ravel()
import staticflow as sf

sf.cartesian_prod(sf.ones(4), sf.ones(2, 3))  # <-- error
