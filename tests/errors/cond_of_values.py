# raises SymbolicError
# says cond: chooses between functions, as in cond(pred, lambda: x, lambda: -x), and true_fn is of type Symbol; sf.where chooses between values
# says sf.where
import staticflow as sf

x = sf.placeholder((3,), name="x")
sf.cond(x.sum() > 0, x, -x)  # <-- error
