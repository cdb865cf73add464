# raises DTypeError
# says Sequential: 'input' must be a tensor, not ndarray; wrap data with sf.tensor(...)
import numpy as np

import staticflow as sf

model = sf.nn.Sequential(sf.nn.ReLU())
model(np.ones((2, 3), np.float32))  # <-- error
