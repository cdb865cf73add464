# raises ArgumentError
# says randint: there is no size
# says randint(low, high, size)
import staticflow as sf

sf.randint(5)  # <-- error
