# raises AutogradError
# says mul
# says second time
# says retain_graph=True
import staticflow as sf

w = sf.ones(2, requires_grad=True)
loss = (w * w).sum()  # <-- error
loss.backward()
loss.backward()
