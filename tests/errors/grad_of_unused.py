# raises AutogradError
# says entry 1 of wrt
# says shape [3]
# says allow_unused=True
import staticflow as sf

w = sf.ones(2, requires_grad=True)
unused = sf.ones(3, requires_grad=True)
sf.grad(w.sum(), [w, unused])  # <-- error
