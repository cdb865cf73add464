# raises SymbolicError
# says compile: inputs are a list, as in compile([x], ...)
import staticflow as sf

sf.compile(3)  # <-- error
