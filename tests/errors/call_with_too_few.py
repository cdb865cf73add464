# raises ShapeError
# says takes 1 inputs (x)
# says 0 were given
import staticflow as sf

x = sf.placeholder((2,), name="x")
double = sf.compile([x], x * 2)
double()  # <-- error
