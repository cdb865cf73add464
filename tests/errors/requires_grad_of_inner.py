# raises AutogradError
# says leaves
# says detach
import staticflow as sf

y = sf.ones(2, requires_grad=True) * 2
y.requires_grad = False  # <-- error
