# raises ShapeError
# says f32[trips] has the size trips, which is known only when the loop that it is of has run
import staticflow as sf

x = sf.placeholder((), name="x")
_, ys = sf.scan(lambda c, _: (c * 2, c), x, length=9, until=lambda c, y: c > 10)
sf.compile([x], sf.zeros_like(ys))  # <-- error
