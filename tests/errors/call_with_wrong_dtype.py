# raises DTypeError
# says x
# says float64
# says float32
import numpy as np

import staticflow as sf

x = sf.placeholder((2,), name="x")
double = sf.compile([x], x * 2)  # <-- also
double(np.ones(2))  # <-- error
