# raises DTypeError
# says integer tensor
# says float32
import staticflow as sf

rows = [1, 2, 3]
rows[sf.tensor(1.0)]  # <-- error
