# raises SymbolicError
# says an optimiser made where a graph is traced would be a new one in every call
# says updates=opt.minimize(loss)
import staticflow as sf

layer = sf.nn.Linear(3, 2)


def step(x):
    sf.optim.SGD(layer.parameters(), 0.1).step()  # <-- error


sf.jit(step)(sf.ones(4, 3))
