# raises DTypeError
# says cat: entry 1 is a list; wrap data with sf.tensor(...)
import staticflow as sf

sf.cat([sf.ones(2), [1.0, 2.0]])  # <-- error
