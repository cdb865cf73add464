# raises ShapeError
# says a step of -1
# says positive
import staticflow as sf

x = sf.ones(2)
x[::-1]  # <-- error
