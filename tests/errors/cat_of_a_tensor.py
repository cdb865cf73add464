# raises DTypeError
# says cat: takes a list or tuple of tensors, not a Tensor
import staticflow as sf

sf.cat(sf.ones(2, 3))  # <-- error
