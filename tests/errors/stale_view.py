# raises AutogradError
# says view of shape []
# says take the view again
import staticflow as sf

w = sf.ones(2, requires_grad=True)
y = w * 2
first = y[0]
y += w  # <-- also
first * 2  # <-- error
