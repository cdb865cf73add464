# raises SymbolicError
# says vmap: a size that depends on values, that of bincount, would differ from row to row
# says count or add up into zeros of a known size, as with scatter_add
import staticflow as sf

sf.vmap(lambda row: sf.bincount(row, minlength=4))(sf.tensor([[1, 2], [0, 1]]))  # <-- error
