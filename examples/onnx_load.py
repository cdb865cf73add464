"""A model as a file of ONNX and back: a module that is trained further, and compiled for any number
of rows; onnxruntime runs what comes of it, where it is installed."""

import tempfile
from pathlib import Path

import numpy as np

import staticflow as sf
from staticflow import nn


def train(model: nn.Module, x: sf.Tensor, y: sf.Tensor, steps: int) -> float:
    """The loss after so many steps."""
    optimizer = sf.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError:
        print("pip install onnx to see this")
        return

    folder = Path(tempfile.mkdtemp())
    sf.manual_seed(0)
    x = sf.randn(64, 3)
    y = (x[:, :1] * x[:, 1:2]).tanh()
    first = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    print(f"trained for 20 steps: {train(first, x, y, 20):.4f}")
    sf.onnx.export(first, folder / "model.onnx", sf.placeholder(("batch", 3), name="x"))

    model = sf.onnx.load(folder / "model.onnx")
    print(f"parameters: {', '.join(name for name, _ in model.named_parameters())}")
    print(f"the same numbers: {sf.allclose(model(x), first(x), atol=1e-6)}")
    print(f"and 200 steps more: {train(model, x, y, 200):.4f}")

    (rows,) = model.placeholders()  # f32[batch, 3], as the file says
    program = sf.compile([rows], model(rows))
    for count in (1, 7):
        found = program(x[:count])
        print(f"compiled, of {count} rows: {sf.allclose(found, model(x[:count]), atol=1e-6)}")

    sf.onnx.export(model, folder / "trained.onnx", rows)
    try:
        import onnxruntime
    except ImportError:
        return
    session = onnxruntime.InferenceSession(
        folder / "trained.onnx", providers=["CPUExecutionProvider"]
    )
    (theirs,) = session.run(None, {"x": x.numpy()})
    print(f"onnxruntime: {np.allclose(theirs, model(x).detach().numpy(), 1e-4, 1e-5)}")

    try:
        sf.onnx.load((folder / "trained.onnx").read_bytes()[:100])
    except sf.ModelError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
