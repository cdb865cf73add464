# raises ArgumentError
# says SGD: parameter 0 is an ndarray; give tensors, as model.parameters() does
import numpy as np

import staticflow as sf

sf.optim.SGD([np.ones(3)], lr=0.1)  # <-- error
