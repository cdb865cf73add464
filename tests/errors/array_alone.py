# raises SymbolicError
# says exp(ndarray)
# says sf.from_numpy
import staticflow as sf

import numpy as np

sf.exp(np.ones(2))  # <-- error
