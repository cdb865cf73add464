# raises AutogradError
# says .detach().numpy()
import staticflow as sf

w = sf.ones(2, requires_grad=True)
w.numpy()  # <-- error
