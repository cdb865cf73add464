# raises ShapeError
# says data[0][0] has shape [2] and data[0][1] [1]
# says pad them
import staticflow as sf

sf.tensor([[[1, 2], [3]], [[4, 5], [6, 7]]])  # <-- error
