# raises LinAlgError
# says cholesky(f32[2, 2]): Matrix is not positive definite
import staticflow as sf

sf.linalg.cholesky(-sf.eye(2))  # <-- error
