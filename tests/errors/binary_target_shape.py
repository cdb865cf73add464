# raises ShapeError
# says binary_cross_entropy_with_logits: an input of shape [4, 1] and a target of shape [4]; both
import staticflow as sf

sf.nn.functional.binary_cross_entropy_with_logits(sf.randn(4, 1), sf.ones(4))  # <-- error
