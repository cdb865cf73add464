# raises ArgumentError
# says generator= takes a generator, not 0; give sf.Generator().manual_seed(...)
import staticflow as sf

sf.randn(2, generator=0)  # <-- error
