# raises ShapeError
# says add(f32[n, 3], f32[2])
# says 3 and 2 differ
import staticflow as sf

x = sf.placeholder(("n", 3), name="x")
x + sf.ones(2)  # <-- error
