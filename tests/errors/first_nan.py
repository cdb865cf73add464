# raises NanError
# says log(f32[2]) makes the first NaN at [1] of -1.0
import numpy as np

import staticflow as sf

x = sf.placeholder((2,), name="x")
y = x.log().sum()  # <-- also
program = sf.compile([x], y)
program.check_nan(np.array([1, -1], np.float32))  # <-- error
