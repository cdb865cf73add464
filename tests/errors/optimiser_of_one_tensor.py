# raises DTypeError
# says Adam takes a list of parameters or of groups, not a single Tensor: Adam([w], ...)
import staticflow as sf

w = sf.ones(3, requires_grad=True)
sf.optim.Adam(w)  # <-- error
