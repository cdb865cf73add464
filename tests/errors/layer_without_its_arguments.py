# raises TypeError
# says LogSoftmax() missing 1 required positional argument: 'dim'
import staticflow as sf

sf.nn.LogSoftmax()  # <-- error
