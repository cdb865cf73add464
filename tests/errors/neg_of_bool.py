# raises DTypeError
# says neg(bool[2])
# says not defined for bool
import staticflow as sf

mask = sf.ones(2) > 0
-mask  # <-- error
