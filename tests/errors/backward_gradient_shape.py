# raises ShapeError
# says [3]
# says [2]
import staticflow as sf

w = sf.ones(2, requires_grad=True)
(w * 2).backward(sf.ones(3))  # <-- error
