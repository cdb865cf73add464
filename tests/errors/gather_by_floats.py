# raises DTypeError
# says gather(f32[2], f32[2])
# says integer dtype
import staticflow as sf

x = sf.ones(2)
x.gather(0, x)  # <-- error
