# raises ShapeError
# says reshape: the elements of f32[x_0, 4] and of [(4*x_0)//3, 3]
# says must be equal, but x_0 is 2 (dim 0 of x); at
import staticflow as sf

x = sf.placeholder((None, 4), name="x")
program = sf.compile([x], x.view(-1, 3))  # <-- also
program(sf.ones(2, 4))  # <-- error
