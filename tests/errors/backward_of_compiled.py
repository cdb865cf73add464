# raises AutogradError
# says a compiled program records nothing either, let it give sf.grad(loss, w)
import staticflow as sf

w, x = sf.ones(3, requires_grad=True), sf.placeholder((3,), name="x")
program = sf.compile([x], (x * w).sum())
program(sf.ones(3)).backward()  # <-- error
