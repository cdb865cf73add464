# raises AutogradError
# says add_ on a leaf, float32[2],
# says sf.no_grad()
import staticflow as sf

w = sf.ones(2, requires_grad=True)
w.add_(1)  # <-- error
