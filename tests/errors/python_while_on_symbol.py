# raises SymbolicError
# says the truth of a symbolic value (lt: bool[]
# says sf.while_loop(condition, body, x)
# says sf.cond
import staticflow as sf

x = sf.placeholder((), name="x")
while x < 10:  # <-- error
    x = x * 2
