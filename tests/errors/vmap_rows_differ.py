# raises ShapeError
# says vmap: the arguments have 2 and 3 rows along their in_dims; these numbers must be equal
import staticflow as sf

sf.vmap(sf.add)(sf.ones(2), sf.ones(3))  # <-- error
