# raises DTypeError
# says where: the number 300 does not fit uint8; use a wider dtype
import staticflow as sf

x = sf.placeholder((None,), "uint8", name="x")
sf.where(x > 2, x, 300)  # <-- error
