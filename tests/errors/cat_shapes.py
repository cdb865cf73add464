# raises ShapeError
# says cat(f32[2, 3], f32[2, 2])
# says dim 1
# says 3 and 2 differ
import staticflow as sf

sf.cat([sf.ones(2, 3), sf.ones(2, 2)])  # <-- error
