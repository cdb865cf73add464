# raises AutogradError
# says shape [2]
# says loss.sum().backward()
import staticflow as sf

w = sf.ones(2, requires_grad=True)
(w * 2).backward()  # <-- error
