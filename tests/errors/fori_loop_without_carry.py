# raises ShapeError
# says the carry came in as * and went out as None
import staticflow as sf

sf.fori_loop(0, 3, lambda i, c: None, sf.tensor(0.0))  # <-- error
