# raises DTypeError
# says x
# says float64
# says float32
import staticflow as sf

import numpy as np

x = sf.placeholder((2,), name="x")
double = sf.compile([x], x * 2)  # <-- also
double(np.ones(2))  # <-- error
