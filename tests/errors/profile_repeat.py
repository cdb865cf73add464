# raises ArgumentError
# says repeat is 0
import staticflow as sf

x = sf.placeholder((3,), name="x")
sf.compile([x], x.exp()).profile(sf.ones(3), repeat=0)  # <-- error
