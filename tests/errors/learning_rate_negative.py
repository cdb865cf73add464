# raises ArgumentError
# says lr cannot be negative, as -0.1 is
import staticflow as sf

sf.optim.SGD(sf.nn.Linear(2, 2).parameters(), lr=-0.1)  # <-- error
