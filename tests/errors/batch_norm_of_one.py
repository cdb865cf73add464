# raises ShapeError
# says one element in each channel, shape [1, 3]
# says no variance
import staticflow as sf

layer = sf.nn.BatchNorm1d(3)
layer(sf.ones(1, 3))  # <-- error
