# raises SymbolicError
# says sf.grad
import staticflow as sf

x = sf.placeholder((), name="x")
(x * x).backward()  # <-- error
