# raises ShapeError
# says reshape
# says the elements of f32[6] and of [4]
# says 6 and 4 differ
import staticflow as sf

x = sf.ones(6)
x.reshape(4)  # <-- error
