# raises IndexRangeError
# says dim 0 of the mask, of shape [2], meets dim 0 of size 3
import staticflow as sf

x = sf.zeros(3)
x[sf.tensor([True, False])]  # <-- error
