# raises SymbolicError
# says the array of a symbolic value
# says functions of sf
import staticflow as sf

import numpy as np

x = sf.placeholder((3,), name="x")
np.asarray(x)  # <-- error
