# raises ShapeError
# says xs[1] has 2 rows where 3 are needed
import staticflow as sf

sf.scan(lambda c, x: (c, None), sf.tensor(0.0), (sf.ones(3), sf.ones(2)))  # <-- error
