# raises SymbolicError
# says the iteration of a symbolic value
# says sf.scan
import staticflow as sf

x = sf.placeholder((None, 2), name="x")
for row in x:  # <-- error
    pass
