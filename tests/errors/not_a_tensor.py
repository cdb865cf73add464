# raises DTypeError
# says must be a tensor, not list
# says sf.tensor
import staticflow as sf

x = sf.ones(2)
x + [1.0, 2.0]  # <-- error
