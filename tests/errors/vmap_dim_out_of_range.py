# raises DimRangeError
# says vmap: in_dims is 2 for a tensor of 2 dims; it must be from -2 to 1
import staticflow as sf

sf.vmap(sf.sin, in_dims=2)(sf.ones(2, 3))  # <-- error
