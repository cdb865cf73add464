"""Batches for a compiled step: of a dataset of one's own, made ahead on a thread, and of PyTorch's
loader, whose tensors it takes as they are."""

from importlib.util import find_spec

import numpy as np

import staticflow as sf
from staticflow.utils.data import DataLoader, Dataset


class Squares(Dataset):
    """Numbers and their squares, as NumPy arrays."""

    def __len__(self):
        return 100

    def __getitem__(self, i):
        x = np.array([i / 50 - 1], np.float32)
        return {"x": x, "y": x * x}


def main() -> None:
    """A step on open batch sizes, fed by either loader."""
    sf.manual_seed(0)
    model = sf.nn.Sequential(sf.nn.Linear(1, 16), sf.nn.Tanh(), sf.nn.Linear(16, 1))
    optimizer = sf.optim.Adam(model.parameters(), lr=0.02)
    x, y = sf.placeholder((None, 1), name="x"), sf.placeholder((None, 1), name="y")
    loss = sf.nn.functional.mse_loss(model(x), y)
    step = sf.compile([x, y], loss, updates=optimizer.minimize(loss))

    loader = DataLoader(Squares(), batch_size=32, shuffle=True)
    print("batches of", [batch["x"].shape[0] for batch in loader])
    losses = [step(batch["x"], batch["y"]).item() for _ in range(50) for batch in loader]
    print("the loss fell to a tenth:", losses[-1] < losses[0] / 10)

    if find_spec("torch") is None:
        print("PyTorch's loader is left out, as PyTorch is not installed")
    else:
        from torch.utils.data import DataLoader as TheirLoader

        batch = next(iter(TheirLoader(Squares(), batch_size=10)))  # tensors of PyTorch's
        print("a step on PyTorch's batch:", step(batch["x"], batch["y"]).item() < losses[0])

    try:
        next(iter(DataLoader([np.ones(2), np.ones(3)], batch_size=2)))
    except sf.ShapeError as error:
        print("refused:", str(error).split(", at")[0])


if __name__ == "__main__":
    main()
