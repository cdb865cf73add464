# raises SymbolicError
# says add_ of a tensor cannot be part of a graph
# says updates=
import staticflow as sf

w = sf.ones(2)
x = sf.placeholder((2,), name="x")
w += x  # <-- error
