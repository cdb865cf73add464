# raises DTypeError
# says gelu(i64[n])
# says not defined for int64
import staticflow as sf

classes = sf.placeholder(("n",), sf.int64, name="classes")
sf.nn.functional.gelu(classes)  # <-- error
