# raises ShapeError
# says a target of float32 is probabilities in the shape of the scores, [N, 3], not [N]
import staticflow as sf

scores, target = sf.placeholder(("N", 3), name="scores"), sf.placeholder(("N",), name="target")
sf.nn.functional.cross_entropy(scores, target)  # <-- error
