# raises ShapeError
# says solve: the rows of A [3, 3] and the elements of B [4]: 3 and 4 differ; they must be equal
import staticflow as sf

sf.linalg.solve(sf.eye(3), sf.ones(4))  # <-- error
