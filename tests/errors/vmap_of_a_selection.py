# raises SymbolicError
# says vmap: a size that depends on values, as of what a mask selects, would differ from row to row
import staticflow as sf


def positive(x):
    return x[x > 0]  # <-- error


sf.vmap(positive)(sf.ones(2, 3))
