# raises ShapeError
# says solve_triangular: A has shape [3, 3] and B [3]; both must be matrices
# says give a vector B as B.unsqueeze(-1)
import staticflow as sf

sf.linalg.solve_triangular(sf.eye(3), sf.ones(3), upper=True)  # <-- error
