# raises DTypeError
# says matmul: 'other' must be a tensor, not int; multiply by a number with *
import staticflow as sf

sf.ones(2) @ 3  # <-- error
