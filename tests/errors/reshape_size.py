# raises ShapeError
# says reshape
# says f32[6] as [4]
# says 6 and 4 differ
import staticflow as sf

x = sf.ones(6)
x.reshape(4)  # <-- error
