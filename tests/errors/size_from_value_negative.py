# raises ShapeError
# says a size lies outside of 0..
# says in iteration 2 of the while at
# says (it is -1; it must be in 0..
import staticflow as sf

n = sf.placeholder((), "int64", name="n")
total = sf.fori_loop(0, n, lambda i, c: c + sf.ones(1 - i).sum(), 0.0)  # <-- also
program = sf.compile([n], total)
program(2)
program(3)  # <-- error
