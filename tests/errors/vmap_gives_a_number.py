# raises DTypeError
# says vmap: the function gives int; it must give tensors
import staticflow as sf

sf.vmap(lambda x: 1)(sf.ones(2, 3))  # <-- error
