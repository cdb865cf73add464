# raises SymbolicError
# says updates are a mapping {tensor: new value}, not SGD
# says updates=opt.minimize(loss)
import staticflow as sf

model = sf.nn.Linear(2, 1)
x = sf.placeholder((None, 2), name="x")
sf.compile([x], model(x).sum(), updates=sf.optim.SGD(model.parameters(), lr=0.1))  # <-- error
