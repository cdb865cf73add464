# raises TypeError
# says np.spacing has no counterpart
# says .detach().numpy()
import numpy as np

import staticflow as sf

np.spacing(sf.ones(2))  # <-- error
