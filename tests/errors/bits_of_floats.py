# raises DTypeError
# says bitwise_and(f32[2], i64[])
# says not defined for float32
import staticflow as sf

sf.ones(2) & sf.tensor(3)  # <-- error
