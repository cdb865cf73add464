# raises IndexRangeError
# says gather
# says the index 3, at [1], is outside dim 0 of size 3
import staticflow as sf

x = sf.placeholder((3,), name="x")
i = sf.placeholder((None,), "int64", name="i")
pick = sf.compile([x, i], x.gather(0, i))  # <-- also
pick(sf.ones(3), sf.tensor([0, 3]))  # <-- error
