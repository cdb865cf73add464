# raises AutogradError
# says view
# says out of place
import staticflow as sf

w = sf.ones(2, requires_grad=True)
y = w * 2
y[0] = 1  # <-- error
