# raises DTypeError
# says where(f32[2], f32[2], f32[2])
# says must be bool
# says x > 0
import staticflow as sf

x = sf.ones(2)
sf.where(x, x, x)  # <-- error
