# raises DimRangeError
# says 2 indices for a tensor of 1 dims
import staticflow as sf

x = sf.ones(2)
x[0, 0]  # <-- error
