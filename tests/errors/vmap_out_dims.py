# raises DimRangeError
# says vmap: out_dims is 4 for a result of 2 dims with that of the rows; it must be from -2 to 1
import staticflow as sf

sf.vmap(lambda row: row * 2, out_dims=4)(sf.ones(2, 3))  # <-- error
