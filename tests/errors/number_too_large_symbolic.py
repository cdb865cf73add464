# raises DTypeError
# says 300
# says uint8
import staticflow as sf

x = sf.placeholder((1,), "uint8", name="x")
x + 300  # <-- error
