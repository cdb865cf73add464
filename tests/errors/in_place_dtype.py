# raises DTypeError
# says float32
# says int64
import staticflow as sf

x = sf.tensor([1, 2])
x += 0.5  # <-- error
