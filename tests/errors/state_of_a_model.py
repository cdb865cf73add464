# raises CheckpointError
# says an optimiser's state has 'param_groups' and 'state', as its state_dict() gives them
# says this has ['weight', 'bias']
import staticflow as sf

model = sf.nn.Linear(2, 2)
sf.optim.SGD(model.parameters()).load_state_dict(model.state_dict())  # <-- error
