# raises ShapeError
# says slice(f32[3])
# says the number of elements taken from dim 0 of f32[3]: -1 is too small
import staticflow as sf

x = sf.ones(3)
x.narrow(0, 2, -1)  # <-- error
