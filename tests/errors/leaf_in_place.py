# raises AutogradError
# says leaf
# says sf.no_grad()
import staticflow as sf

w = sf.ones(2, requires_grad=True)
w.add_(1)  # <-- error
