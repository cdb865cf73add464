# raises CompileError
# says svd: no kernel does it, it runs eagerly only
import staticflow as sf

x = sf.placeholder((3, 3), name="x")
s = sf.linalg.svdvals(x)  # <-- error
sf.compile([x], s)
