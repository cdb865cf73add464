# raises ShapeError
# says add: the sizes at dim -1: iterations and z_0 must be equal
import staticflow as sf

x = sf.placeholder((), name="x")
z = sf.placeholder((None,), name="z")
_, ys = sf.scan(lambda c, _: (c * 2, c), x, length=9, until=lambda c, y: c > 10)
program = sf.compile([x, z], ys + z)  # <-- also
program(sf.tensor(1.0), sf.ones(4))
program(sf.tensor(1.0), sf.ones(5))  # <-- error
