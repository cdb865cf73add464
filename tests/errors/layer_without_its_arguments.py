# raises TypeError
# says AvgPool2d() missing 1 required positional argument: 'kernel_size'
import staticflow as sf

sf.nn.AvgPool2d()  # <-- error
