# raises ShapeError
# says a size is an int, a name or None, not -2
import staticflow as sf

sf.placeholder((-2,), name="x")  # <-- error
