# raises DTypeError
# says sum: 'input' must be a tensor, not list; wrap data with sf.tensor(...) or sf.from_numpy(...)
import staticflow as sf

sf.sum([1.0, 2.0])  # <-- error
