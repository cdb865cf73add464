# raises SymbolicError
# says how many slices
import staticflow as sf

x = sf.placeholder((None, 3), name="x")
x.unbind()  # <-- error
