# raises DTypeError
# says SGD takes a list of parameters or of groups, not a single Linear: SGD(model.parameters(), ...)
import staticflow as sf

sf.optim.SGD(sf.nn.Linear(2, 3))  # <-- error
