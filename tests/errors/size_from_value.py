# raises SymbolicError
# says the number of a symbolic value (param: i64[]
# says a size comes from the shape of an input, as in x.shape[0]
import staticflow as sf

n = sf.placeholder((), "int64", name="n")
sf.randn(n, 3)  # <-- error
