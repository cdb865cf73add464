# raises ProfileError
# says memory is counted already
from staticflow.runtime.counting import count_allocations

with count_allocations(), count_allocations():  # <-- error
    pass
