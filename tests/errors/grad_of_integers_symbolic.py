# raises AutogradError
# says grad: entry 0 of wrt
# says is of int64; only floating tensors have gradients
import staticflow as sf

x = sf.placeholder((3,), "int64", name="x")
sf.grad((x * 2.0).sum(), x)  # <-- error
