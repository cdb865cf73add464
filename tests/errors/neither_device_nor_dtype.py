# raises DTypeError
# says 'gpu' names neither a device nor a dtype; devices are 'cpu', 'cuda'
import staticflow as sf

sf.ones(2).to("gpu")  # <-- error
