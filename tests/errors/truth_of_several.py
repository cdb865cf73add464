# raises ShapeError
# says shape [2]
# says ambiguous
# says .any()
import staticflow as sf

x = sf.ones(2)
if x > 0:  # <-- error
    pass
