# raises LinAlgError
# says svdvals(f32[3, 3]): SVD did not converge
import staticflow as sf

x = sf.placeholder((3, 3), name="x")
s = sf.linalg.svdvals(x)  # <-- error
sf.compile([x], s)(sf.full((3, 3), float("nan")))
