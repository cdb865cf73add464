# raises DTypeError
# says 'lr' must be float, not '0.1'
import staticflow as sf

sf.optim.SGD(sf.nn.Linear(2, 2).parameters(), lr="0.1")  # <-- error
