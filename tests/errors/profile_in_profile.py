# raises ProfileError
# says memory is counted already
import staticflow as sf

with sf.profile(), sf.profile():  # <-- error
    pass
