# raises ShapeError
# says a result is f32[iterations], of a size that only the inside can tell
import staticflow as sf

x = sf.placeholder((3,), name="x")


def step(c, row):
    _, ys = sf.scan(lambda a, _: (a + row, a), row, length=9, until=lambda a, y: a > 5)
    return c, ys


sf.scan(step, (), x)  # <-- error
