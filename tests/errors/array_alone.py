# raises DTypeError
# says exp(ndarray)
# says sf.from_numpy
import numpy as np

import staticflow as sf

sf.exp(np.ones(2))  # <-- error
