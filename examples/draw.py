"""Graphs and tapes where a person can see them: pages, pictures, and what they are made of.

A training step is drawn as it was written, as it runs, and with every pass between, on a page that
needs nothing but a browser; the tape of an eager step in the same way.
"""

import tempfile
from pathlib import Path

import staticflow as sf
from staticflow.nn import functional as F


def main() -> None:
    sf.manual_seed(0)
    folder = Path(tempfile.mkdtemp(prefix="staticflow-"))
    model = sf.nn.Sequential(sf.nn.Linear(8, 16), sf.nn.Tanh(), sf.nn.Linear(16, 3))
    optimiser = sf.optim.SGD(model.parameters(), lr=0.1)

    x = sf.placeholder((None, 8), name="x")
    target = sf.placeholder((None,), "int64", name="target")
    loss = F.cross_entropy(model(x), target)
    step = sf.compile([x, target], loss, updates=optimiser.minimize(loss))

    page = sf.draw(step, folder / "step.html")
    print(page, "with a slider over", [stage.name for stage in page.stages])
    sf.draw(step, folder / "written.svg", after="written")

    drawing = page.drawing
    for node in drawing.nodes:
        if node.kind == "kernel":
            inside = sum(other.parent == node.id for other in drawing.nodes)
            print(f"{node.name}: {node.label}: {inside} nodes, from {', '.join(node.lines)}")
    print("results:", [name for node in drawing.nodes for name in node.outputs if "new" in name])

    eager = F.cross_entropy(model(sf.randn(5, 8)), sf.tensor([0, 1, 2, 0, 1]))
    tape = sf.draw(eager, folder / "tape.svg")
    kept = [node.label for node in tape.drawing.nodes if "argument" in node.attrs.get("keeps", "")]
    print(f"{tape}; {', '.join(kept)} keep what they were given")
    print(f"open {folder / 'step.html'} in a browser")


if __name__ == "__main__":
    main()
