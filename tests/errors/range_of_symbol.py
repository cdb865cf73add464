# raises SymbolicError
# says the number of a symbolic value
# says sf.fori_loop(0, n, body, x)
import staticflow as sf

n = sf.placeholder((), "int64", name="n")
for _ in range(n):  # <-- error
    pass
