# raises SymbolicError
# says takes symbols, not a function; sf.jit(f) traces one
import staticflow as sf


@sf.compile  # <-- error
def double(x):
    return x * 2
