# raises ShapeError
# says the room for a window of 3 in f32[N, 1, H, 8], padded by [0, 0]: H must be at least 3
# says H is 2
import staticflow as sf

x = sf.placeholder(("N", 1, "H", 8), name="x")
w = sf.ones(4, 1, 3, 3)
out = sf.nn.functional.conv2d(x, w)  # <-- also
f = sf.compile([x], out)
f(sf.ones(5, 1, 2, 8))  # <-- error
