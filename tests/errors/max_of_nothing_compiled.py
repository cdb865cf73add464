# raises ShapeError
# says the extreme of nothing, as dim 1 of f32[2, x_1]: x_1 must be at least 1
import numpy as np

import staticflow as sf

x = sf.placeholder((2, None), name="x")
y = x.amax(1)
sf.compile([x], y)(np.zeros((2, 0), np.float32))  # <-- error
