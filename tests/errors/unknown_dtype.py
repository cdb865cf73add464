# raises DTypeError
# says 'float12'
# says float32
import staticflow as sf

sf.ones(2, dtype="float12")  # <-- error
