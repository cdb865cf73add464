# raises ShapeError
# says slice(f32[3])
# says dim 0 of f32[3] reaches to 5
import staticflow as sf

x = sf.ones(3)
x.narrow(0, 2, 3)  # <-- error
