# raises ShapeError
# says a step of 0
# says negative
import staticflow as sf

x = sf.ones(2)
x[::0]  # <-- error
