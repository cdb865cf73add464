# raises ShapeError
# says slice(f32[3])
# says dim 0 of f32[3], read up to 5: 3 is too small; it must be at least 5
import staticflow as sf

x = sf.ones(3)
x.narrow(0, 2, 3)  # <-- error
