# raises ArgumentError
# says cdist: p is -1
# says 0 or more
import staticflow as sf

sf.cdist(sf.ones(2, 3), sf.ones(4, 3), p=-1)  # <-- error
