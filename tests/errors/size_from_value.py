# raises DTypeError
# says a size is f32[]; it must be an integer, or a symbol of an integer dtype and of no dims
import staticflow as sf

n = sf.placeholder((), name="n")
sf.randn(n, 3)  # <-- error
