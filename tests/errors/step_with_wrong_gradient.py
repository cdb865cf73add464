# raises ShapeError
# says step: the gradient of parameter 1 has shape [3], and [2] is needed; nothing was updated
import staticflow as sf

w, v = sf.ones(3, requires_grad=True), sf.ones(2, requires_grad=True)
w.grad, v.grad = sf.ones(3), sf.ones(3)
optimiser = sf.optim.SGD([w, v], lr=0.1)
try:
    optimiser.step()  # <-- error
finally:
    assert w.tolist() == [1, 1, 1]
