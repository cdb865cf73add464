# raises AttributeError
# says Linear was given a ndarray; give tensors: wrap data with sf.from_numpy(...)
import numpy as np

import staticflow as sf

model = sf.nn.Sequential(sf.nn.Linear(3, 2))
model(np.ones((2, 3), np.float32))  # <-- error
