# raises SymbolicError
# says the size n is known only when the program runs
# says sf.scan
import staticflow as sf

x = sf.placeholder(("n", 2), name="x")
range(x.shape[0])  # <-- error
