# raises AutogradError
# says floating
# says int64
import staticflow as sf

sf.tensor([1]).requires_grad_()  # <-- error
