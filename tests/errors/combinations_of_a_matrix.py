# raises ShapeError
# says combinations: takes vectors, not shape [2, 3]
import staticflow as sf

sf.combinations(sf.ones(2, 3))  # <-- error
