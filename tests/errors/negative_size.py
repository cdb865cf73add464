# raises ShapeError
# says rand(sizes=(-3, 2)): the size -3 in [-3, 2] is negative; give 0 or more
import staticflow as sf

sf.rand(-3, 2)  # <-- error
