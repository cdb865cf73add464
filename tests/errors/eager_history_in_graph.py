# raises SymbolicError
# says mul, made at
# says Module
import staticflow as sf

w = sf.ones(2, requires_grad=True)
square = w * w  # <-- also
x = sf.placeholder((2,), name="x")
square * x  # <-- error
