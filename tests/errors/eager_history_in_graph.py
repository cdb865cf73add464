# raises SymbolicError
# says the tape does not keep argument 2 of add
# says sf.symbol(w)
import staticflow as sf

w = sf.ones(2, requires_grad=True)
moved = w + sf.ones(2)  # <-- also
x = sf.placeholder((2,), name="x")
moved * x  # <-- error
