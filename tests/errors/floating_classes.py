# raises ShapeError
# says a target of float32 is probabilities in the shape of the scores, [4, 3], not [4]
# says target.long()
import staticflow as sf

sf.nn.functional.cross_entropy(sf.randn(4, 3), sf.tensor([0.0, 1.0, 2.0, 1.0]))  # <-- error
