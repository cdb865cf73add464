# raises DeviceError
# says 'tpu' is no device
import staticflow as sf

sf.ones(2, device="tpu")  # <-- error
