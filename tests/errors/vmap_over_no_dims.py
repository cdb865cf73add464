# raises DimRangeError
# says vmap: in_dims is 0 for a tensor of no dims, which has no rows; give None for it
import staticflow as sf

sf.vmap(sf.sin)(sf.tensor(1.0))  # <-- error
