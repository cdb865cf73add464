# raises AutogradError
# says expanded
# says change a clone
import staticflow as sf

row = sf.zeros(1, 3)
row.expand(2, 3).add_(1)  # <-- error
