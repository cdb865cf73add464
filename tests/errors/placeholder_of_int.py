# raises ShapeError
# says placeholder x: the shape is a tuple of sizes, as in (None, 3), not 3
import staticflow as sf

sf.placeholder(3, name="x")  # <-- error
