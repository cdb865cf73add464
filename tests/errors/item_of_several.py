# raises ShapeError
# says item()
# says shape [2]
import staticflow as sf

x = sf.ones(2)
x.item()  # <-- error
