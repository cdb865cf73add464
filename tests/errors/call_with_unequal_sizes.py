# raises ShapeError
# says add
# says 3
# says 4
import staticflow as sf

x = sf.placeholder((None,), name="x")
y = sf.placeholder((None,), name="y")
total = sf.compile([x, y], x + y)  # <-- also
total(sf.ones(3), sf.ones(4))  # <-- error
