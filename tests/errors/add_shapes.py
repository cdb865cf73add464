# raises ShapeError
# says add(f32[3], f32[2])
# says 3 and 2 differ
import staticflow as sf

x = sf.ones(3)
y = sf.ones(2)
x + y  # <-- error
