# raises IndexRangeError
# says index 3 is outside dim 1 of size 3
import staticflow as sf

x = sf.ones(2, 3)
x[:, 3]  # <-- error
