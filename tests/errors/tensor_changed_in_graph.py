# raises SymbolicError
# says in-place change of a tensor
# says updates=
import staticflow as sf

w = sf.ones(2)
x = sf.placeholder((2,), name="x")
w += x  # <-- error
