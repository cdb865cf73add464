# raises DTypeError
# says while_loop: what cond_fn gives must be one bool, a tensor of no dims, not bool[2]
# says .all() or .any()
import staticflow as sf

x = sf.placeholder((2,), name="x")
sf.while_loop(lambda x: x < 3, lambda x: x + 1, x)  # <-- error
