# raises DTypeError
# says an assignment to u8[]: the number 300 does not fit uint8; use a wider dtype
import staticflow as sf

x = sf.tensor([1], dtype="uint8")
x[0] = 300  # <-- error
