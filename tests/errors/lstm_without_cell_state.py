# raises ShapeError
# says LSTM: the first state is 2 tensors, (h, c), of shape (1, N, 16) each
import staticflow as sf

sf.nn.LSTM(8, 16)(sf.randn(5, 2, 8), sf.zeros(1, 2, 16))  # <-- error
