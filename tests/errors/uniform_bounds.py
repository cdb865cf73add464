# raises ArgumentError
# says uniform_: draws lie from 2.0 to 1.0
# says must not be larger
import staticflow as sf

sf.nn.init.uniform_(sf.zeros(3), 2.0, 1.0)  # <-- error
