# raises DTypeError
# says matmul: int is no tensor; multiply with *
import staticflow as sf

sf.ones(2) @ 3  # <-- error
