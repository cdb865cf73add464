# raises DTypeError
# says add(u8[1], u8[])
# says 300
import staticflow as sf

x = sf.tensor([1], dtype="uint8")
x + 300  # <-- error
