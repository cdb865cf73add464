# raises ShapeError
# says bucketize: the boundaries have shape [2, 3]
# says a vector
# says searchsorted
import staticflow as sf

sf.bucketize(sf.ones(4), sf.ones(2, 3))  # <-- error
