# raises DTypeError
# says ReLU: 'inplace' must be bool, not f32[3]
import staticflow as sf

sf.nn.ReLU(sf.ones(3))  # <-- error
