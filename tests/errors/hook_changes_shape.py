# raises ShapeError
# says has changed the size of the gradient from [2] to [3]
import staticflow as sf

y = sf.ones(2, requires_grad=True) * 2
y.register_hook(lambda gradient: sf.ones(3))
y.sum().backward()  # <-- error
