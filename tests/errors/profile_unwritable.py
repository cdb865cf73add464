# raises ProfileError
# says cannot be written
import staticflow as sf

with sf.profile("no/such/folder/trace.json"):  # <-- error
    pass
