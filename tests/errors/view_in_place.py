# raises AutogradError
# says a view of a leaf
# says out of place
import staticflow as sf

w = sf.ones(2, requires_grad=True)
w[0] = 1  # <-- error
