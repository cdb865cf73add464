# raises ShapeError
# says convolution(f32[1, 3, 8, 8], f32[4, 2, 3, 3])
# says the channels of f32[1, 3, 8, 8] and those that the weight f32[4, 2, 3, 3] takes in 1 groups
# says 3 and 2 differ
import staticflow as sf

x, w = sf.ones(1, 3, 8, 8), sf.ones(4, 2, 3, 3)
sf.nn.functional.conv2d(x, w)  # <-- error
