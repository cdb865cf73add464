# raises ShapeError
# says cond: true_fn gives (*, *) and false_fn gives *; both must give the same structure
import staticflow as sf

x = sf.placeholder((2,), name="x")
sf.cond(x.sum() > 0, lambda: (x, x), lambda: x)  # <-- error
