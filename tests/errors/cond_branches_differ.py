# raises DTypeError
# says cond: result[0] is f32[2] from true_fn and i64[2] from false_fn
# says result[1] is f32[2] from true_fn and f32[] from false_fn
import staticflow as sf

x = sf.placeholder((2,), name="x")
sf.cond(x.sum() > 0, lambda: (x, x), lambda: (x.long(), x.sum()))  # <-- error
