# raises DTypeError
# says np.exp cannot write to a tensor; use an in-place method of its own
# says .detach().numpy()
import numpy as np

import staticflow as sf

x = sf.ones(2)
np.exp(x, out=x)  # <-- error
