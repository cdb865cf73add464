# raises SymbolicError
# says vmap: a size that depends on values, as of what a mask selects, is not known where rows are traced
# says select outside of the function
import staticflow as sf

w = sf.ones(4)
sf.func.vmap(lambda x: x * w[w > 0].sum())(sf.ones(3))  # <-- error
