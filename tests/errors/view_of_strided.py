# raises ShapeError
# says strides [1, 3]
# says use .reshape(...)
import staticflow as sf

x = sf.zeros(2, 3)
x.t().view(6)  # <-- error
