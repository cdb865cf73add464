# raises DimRangeError
# says 1 indices for a tensor of 0 dims
# says its number is .item()
import staticflow as sf

loss = sf.ones(3).sum()
loss.data[0]  # <-- error
