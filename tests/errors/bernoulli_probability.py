# raises ArgumentError
# says bernoulli: the probabilities hold numbers outside of [0, 1]
import staticflow as sf

sf.bernoulli(sf.tensor([0.5, 2.0]))  # <-- error
