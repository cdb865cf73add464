# raises SymbolicError
# says jit: takes a function, not 3
import staticflow as sf

sf.jit(3)  # <-- error
