# raises ArgumentError
# says SGD got no parameters
# says in an nn.ModuleList
import staticflow as sf


class Net(sf.nn.Module):
    def __init__(self):
        self.layers = [sf.nn.Linear(2, 2)]


sf.optim.SGD(Net().parameters(), lr=0.1)  # <-- error
