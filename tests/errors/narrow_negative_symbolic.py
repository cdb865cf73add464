# raises ShapeError
# says slice(f32[3])
# says -1 elements
import staticflow as sf

x = sf.placeholder((3,), name="x")
x.narrow(0, 2, -1)  # <-- error
