# raises ShapeError
# says matmul(f32[2, 3], f32[2, 3])
# says columns
# says rows
# says 3 and 2 differ
import staticflow as sf

x = sf.ones(2, 3)
x @ x  # <-- error
