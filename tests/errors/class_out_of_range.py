# raises IndexRangeError
# says index 5, at [1]
# says size 4
import staticflow as sf

scores = sf.zeros(2, 4)
classes = sf.tensor([0, 5])
sf.nn.functional.cross_entropy(scores, classes)  # <-- error
