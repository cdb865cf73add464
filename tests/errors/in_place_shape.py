# raises ShapeError
# says [2] to [3, 2]
import staticflow as sf

x = sf.ones(2)
x.mul_(sf.ones(3, 2))  # <-- error
