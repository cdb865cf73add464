# raises SymbolicError
# says x.shape[0]
import staticflow as sf

x = sf.placeholder((None, 3), name="x")
len(x)  # <-- error
