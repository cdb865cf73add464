# raises AutogradError
# says saved values were freed by the first
# says a value carried over from one training step to the next must leave the tape
# says state = state.detach()
import staticflow as sf

w = sf.ones(2, requires_grad=True)
state = sf.zeros(2)
for _ in range(2):
    state = (state + w).exp()  # <-- error
    state.sum().backward()
