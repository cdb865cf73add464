# raises ArgumentError
# says from 5 to before 5
import staticflow as sf

sf.randint(5, 5, (2,))  # <-- error
