# raises SymbolicError
# says the number of a symbolic value
# says sf.compile
import staticflow as sf

x = sf.placeholder((), name="x")  # <-- also
x.item()  # <-- error
