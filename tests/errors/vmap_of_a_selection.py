# raises SymbolicError
# says vmap: measure makes a size of values, and rows would have different sizes
import staticflow as sf


def positive(x):
    return x[x > 0]  # <-- error


sf.vmap(positive)(sf.ones(2, 3))
