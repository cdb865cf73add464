# raises ArgumentError
# says StepLR: step_size is 1 or more, not 0
import staticflow as sf

optimiser = sf.optim.SGD(sf.nn.Linear(2, 2).parameters(), lr=0.1)
sf.optim.lr_scheduler.StepLR(optimiser, step_size=0)  # <-- error
