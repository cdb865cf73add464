# raises SymbolicError
# says cond: chooses between functions, as in cond(pred, lambda: x, lambda: -x), not Symbol
# says sf.where
import staticflow as sf

x = sf.placeholder((3,), name="x")
sf.cond(x.sum() > 0, x, -x)  # <-- error
