# raises DeviceError
# says 'tpu:0' is no device
# says 'cpu', 'cuda'
import staticflow as sf

sf.device("tpu:0")  # <-- error
