# raises TypeError
# says compile() got an unexpected keyword argument 'mode'; what torch.compile does with a function or a module, sf.jit(f) does
import staticflow as sf

sf.compile(sf.nn.Linear(2, 2), mode="max-autotune")  # <-- error
