# raises DTypeError
# says CrossEntropyLoss: 'ignore_index' must be int, not i64[4]
# says make the layer first, then call it on data: layer = CrossEntropyLoss(...); layer(x)
import staticflow as sf

scores, classes = sf.ones(4, 3), sf.zeros(4, dtype=sf.int64)
sf.nn.CrossEntropyLoss(scores, classes)  # <-- error
