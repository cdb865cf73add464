# raises ThreadsError
# says set_num_threads expects a positive integer, but got 0
import staticflow as sf

sf.set_num_threads(0)  # <-- error
