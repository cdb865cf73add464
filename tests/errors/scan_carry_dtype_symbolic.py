# raises DTypeError
# says carry['n'] came in as i64[] and went out as f32[]
import staticflow as sf

xs = sf.placeholder((None,), name="xs")
sf.scan(lambda c, x: ({"n": c["n"] + x}, None), {"n": sf.tensor(0)}, xs)  # <-- error
