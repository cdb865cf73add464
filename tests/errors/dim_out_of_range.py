# raises DimRangeError
# says sum: dim 2
# says 2 dims
# says from -2 to 1
import staticflow as sf

x = sf.ones(2, 3)
x.sum(dim=2)  # <-- error
