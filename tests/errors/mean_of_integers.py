# raises DTypeError
# says mean
# says int64
# says dtype='float32'
import staticflow as sf

x = sf.tensor([1, 2])
x.mean()  # <-- error
