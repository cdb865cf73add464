# raises SymbolicError
# says an in-place change of the shape of a tensor cannot be part of a graph
import staticflow as sf

x = sf.ones(3)


def body(i, carry):
    x.unsqueeze_(0)  # <-- error
    return carry


sf.fori_loop(0, 2, body, sf.placeholder((3,)))
