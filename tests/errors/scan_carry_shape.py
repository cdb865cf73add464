# raises ShapeError
# says carry came in as f32[] and went out as f32[3]
import staticflow as sf

xs = sf.ones(4, 3)
sf.scan(lambda total, x: (total + x, None), sf.tensor(0.0), xs)  # <-- error
