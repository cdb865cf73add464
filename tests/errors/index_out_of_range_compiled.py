# raises IndexRangeError
# says gather
# says index
import staticflow as sf

x = sf.placeholder((3,), name="x")
i = sf.placeholder((None,), "int64", name="i")
pick = sf.compile([x, i], x.gather(0, i))  # <-- also
pick(sf.ones(3), sf.tensor([0, 3]))  # <-- error
