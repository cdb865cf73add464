# raises SymbolicError
# says n >= 4
# says sf.where
import staticflow as sf

x = sf.placeholder(("n", 2), name="x")
if x.shape[0] >= 4:  # <-- error
    pass
