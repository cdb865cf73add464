# raises ArgumentError
# says vmap: out_dims (0, 0) does not fit the structure of the outputs
import staticflow as sf

sf.vmap(sf.sin, out_dims=(0, 0))(sf.ones(2, 3))  # <-- error
