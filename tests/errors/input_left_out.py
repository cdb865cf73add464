# raises SymbolicError
# says placeholder 'y'
# says not among the inputs
import staticflow as sf

x = sf.placeholder((2,), name="x")
y = sf.placeholder((2,), name="y")  # <-- also
sf.compile([x], x + y)  # <-- error
