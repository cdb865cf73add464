# raises IndexRangeError
# says the index 3, at [1], is outside dim 1 of size 3
# says from -3 to 2
import staticflow as sf

x = sf.zeros(2, 3)
x[:, sf.tensor([0, 3])]  # <-- error
