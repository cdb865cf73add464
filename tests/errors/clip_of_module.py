# raises DTypeError
# says the gradients of a Linear are those of its parameters; give model.parameters()
import staticflow as sf

sf.nn.utils.clip_grad_norm_(sf.nn.Linear(2, 3), 1.0)  # <-- error
