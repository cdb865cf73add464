# raises SymbolicError
# says gt: bool[]
# says sf.where
import staticflow as sf

x = sf.placeholder((), name="x")
if x > 0:  # <-- error
    pass
