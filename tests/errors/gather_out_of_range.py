# raises IndexRangeError
# says gather: the index 7, at [1]
# says size 3
# says from 0 to 2
import staticflow as sf

x = sf.ones(3)
x.gather(0, sf.tensor([0, 7]))  # <-- error
