# raises ShapeError
# says the input 'x' is given twice, by its position and by its name
import staticflow as sf

x = sf.placeholder((2,), name="x")
program = sf.compile([x], x * 2)
program(sf.ones(2), x=sf.ones(2))  # <-- error
