# raises AutogradError
# says mul: argument 0, float32[2]
# says version 1, version 0 is needed
import staticflow as sf

w = sf.ones(2, requires_grad=True)
y = w * 2
z = y * y  # <-- also
with sf.no_grad():
    y.add_(1)  # <-- error
z.sum().backward()
