# raises DTypeError
# says not a single method: Adam(model.parameters(), ...)
import staticflow as sf

sf.optim.Adam(sf.nn.Linear(2, 3).parameters)  # <-- error
