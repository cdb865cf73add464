# raises SymbolicError
# says the number of a symbolic value
import staticflow as sf

x = sf.placeholder((), name="x")
float(x)  # <-- error
