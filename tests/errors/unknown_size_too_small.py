# raises ShapeError
# says slice
# says dim 0
import staticflow as sf

x = sf.placeholder(("n",), name="x")
last = sf.compile([x], x.narrow(0, 0, x.shape[0] - 2))  # <-- also
last(sf.ones(1))  # <-- error
