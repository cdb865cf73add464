"""A model as a file of ONNX: written here, run by onnxruntime where that is installed; Netron draws
it."""

import tempfile
from pathlib import Path

import numpy as np

import staticflow as sf
from staticflow import nn


def run(path: Path, *arrays: np.ndarray) -> list[np.ndarray]:
    """The outputs of a model under onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=False)))


def main() -> None:
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError:
        print("pip install onnx onnxruntime to see this")
        return

    folder = Path(tempfile.mkdtemp())
    sf.manual_seed(0)
    x = sf.placeholder(("batch", 4), name="x")  # a size that stays open
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    sf.onnx.export(model, folder / "model.onnx", x)
    graph = onnx.load(folder / "model.onnx").graph
    print(f"operators: {', '.join(n.op_type for n in graph.node)}")
    print(f"initializers: {', '.join(i.name for i in graph.initializer)}")
    print(f"the input has {graph.input[0].type.tensor_type.shape.dim[0].dim_param} rows")

    rows = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    (found,) = run(folder / "model.onnx", rows)
    wanted = model.eval()(sf.from_numpy(rows)).detach().numpy()
    print(f"the same of {len(found)} rows: {np.allclose(found, wanted, 1e-5, 1e-6)}")

    # a loop of the graph, with a branch in it, over a sequence of any length
    xs = sf.placeholder(("T",), name="xs")

    def step(total, value):
        total = sf.cond(total > 2, lambda: total / 2, lambda: total + value)
        return total, total

    program = sf.compile([xs], sf.scan(step, sf.zeros(()), xs)[1])
    sf.onnx.export(program, folder / "loop.onnx")
    values = np.linspace(0, 2, 9, dtype=np.float32)
    same = np.allclose(run(folder / "loop.onnx", values)[0], program(values).numpy())
    print(f"the same of a loop: {same}")

    # a training step: what it updates goes in, and its new values come out
    loss = model(x).square().mean()
    training = sf.compile([x], loss, updates=sf.optim.SGD(model.parameters(), 0.1).minimize(loss))
    sf.onnx.export(training, folder / "step.onnx")
    outputs = [o.name for o in onnx.load(folder / "step.onnx").graph.output]
    print(f"a step gives {', '.join(outputs)}")

    try:
        sf.onnx.export(sf.linalg.cholesky, folder / "no.onnx", sf.ones(2, 2))
    except sf.SymbolicError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
