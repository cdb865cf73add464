# raises AutogradError
# says shape [] has no graph
# says requires_grad=True
import staticflow as sf

loss = sf.ones(2).sum()
loss.backward()  # <-- error
