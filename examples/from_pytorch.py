"""A model of PyTorch, taken over with its parameters: run eagerly, compiled for all sizes, trained
here and used there; and this compiler behind ``torch.compile``. It needs PyTorch, and says so where
that is missing."""

import numpy as np

import staticflow as sf


def main() -> None:
    try:
        import torch
        from torch import nn
    except ImportError:
        print("pip install torch to see this")
        return

    torch.manual_seed(0)
    theirs = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 1))
    rows = torch.export.Dim("rows")  # a size that stays open
    model = sf.torch.from_module(theirs, (torch.ones(2, 4),), dynamic_shapes=({0: rows},))
    print(f"names: {', '.join(model.state_dict())}")

    x = torch.randn(5, 4)
    same = np.allclose(
        model(sf.from_dlpack(x)).detach().numpy(), theirs(x).detach().numpy(), 1e-5, 1e-6
    )
    print(f"eagerly, the same: {same}")

    inputs = sf.placeholder(("rows", 4), name="x")
    targets = sf.placeholder(("rows", 1), name="y")
    loss = (model(inputs) - targets).square().mean()
    step = sf.compile(
        [inputs, targets], loss, updates=sf.optim.Adam(model.parameters(), 0.01).minimize(loss)
    )
    data = torch.randn(64, 4)
    wanted = data.sum(1, keepdim=True)
    losses = [step(data, wanted).item() for _ in range(200)]
    print(f"the loss fell to a tenth: {losses[-1] < losses[0] / 10}")

    # the parameters are on one memory, so PyTorch's module is trained, too
    now = (theirs(data) - wanted).square().mean().item()
    print(f"PyTorch's module is trained: {now < losses[0] / 10}")

    # or everything stays in PyTorch, and only the compiler is this one
    fast = torch.compile(theirs, backend="staticflow")
    print(f"behind torch.compile, the same: {torch.allclose(fast(x), theirs(x), 1e-4, 1e-5)}")

    class Odd(nn.Module):
        def forward(self, x):
            return torch.fft.fft(x).abs()

    try:
        sf.torch.from_module(Odd(), (x,))
    except sf.SymbolicError as error:
        print(f"refused: {str(error).splitlines()[1].strip()}")


if __name__ == "__main__":
    main()
