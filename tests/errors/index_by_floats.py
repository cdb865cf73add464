# raises DTypeError
# says indexing by a tensor of float32
import staticflow as sf

x = sf.zeros(3)
x[sf.tensor([0.0])]  # <-- error
