# raises SymbolicError
# says the array of a symbolic value
# says functions of sf
import numpy as np

import staticflow as sf

x = sf.placeholder((3,), name="x")
np.asarray(x)  # <-- error
