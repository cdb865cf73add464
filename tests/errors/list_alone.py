# raises AttributeError
# says sum was given a list; give tensors
import staticflow as sf

sf.sum([1.0, 2.0])  # <-- error
