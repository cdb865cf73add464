# raises IndexRangeError
# says cross_entropy
import numpy as np

import staticflow as sf

x = sf.placeholder((None, 4), name="x")
t = sf.placeholder((None,), "int64", name="t")
loss = sf.nn.functional.cross_entropy(x, t)  # <-- error
sf.compile([x, t], loss)(np.zeros((2, 4), np.float32), np.array([1, 4]))
