# raises CheckpointError
# says load_state_dict of Linear: weight has shape [4, 3], and [5, 3] is needed; bias has
import staticflow as sf

sf.nn.Linear(3, 5).load_state_dict(sf.nn.Linear(3, 4).state_dict())  # <-- error
