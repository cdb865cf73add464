# raises ShapeError
# says lstsq: the rows of A [3, 2] and the elements of B [4]: 3 and 4 differ; they must be equal
import staticflow as sf

sf.linalg.lstsq(sf.ones(3, 2), sf.ones(4))  # <-- error
