# raises AutogradError
# says shape [3]
# says cotangents=
import staticflow as sf

x = sf.placeholder((3,), name="x")
sf.grad(x * x, x)  # <-- error
