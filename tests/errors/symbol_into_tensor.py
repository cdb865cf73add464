# raises SymbolicError
# says sf.symbol(x)
import staticflow as sf

buffer = sf.zeros(3)
x = sf.placeholder((3,), name="x")
buffer.copy_(x)  # <-- error
