# raises ShapeError
# says x
# says 3
# says 2
import staticflow as sf

x = sf.placeholder((2,), name="x")
double = sf.compile([x], x * 2)  # <-- also
double(sf.ones(3))  # <-- error
