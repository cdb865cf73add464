"""Makes the reports of this folder: ``python examples/reports/measure.py``, on a quiet machine.

Each is what ``python -m staticflow compare MODEL`` finds, as JSON and as a page; then the pages
that show them are written (summary.py). Some minutes for each; arguments name some of them, as
``lenet``.
"""

import argparse
import subprocess
import sys

from summary import FOLDER, ROOT, main

MODELS = {
    "lenet.py:LeNet": 100,
    "lstm_classifier.py:Classifier": 100,
    "transformer.py:Reverser": 200,
    "weight_sharing.py:RandomDepth": 200,
    "adaptive_ode.py:Pendulum": 100,
}
"""The models of the examples, and how many steps each is trained."""


def measure(model, steps):
    """Compare one model in both modes; its JSON lies here afterwards."""
    file = FOLDER / f"{model.partition('.')[0]}.json"
    page = file.with_suffix(".html")
    outputs = ("--json", str(file), "--html", str(page))
    command = ("compare", f"examples/{model}", "--steps", str(steps), *outputs)
    print(" ".join(command), flush=True)
    subprocess.run([sys.executable, "-m", "staticflow", *command], cwd=ROOT, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    names = [model.partition(".")[0] for model in MODELS]
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(names)}; all by default")
    chosen = parser.parse_args().models or names
    if unknown := [name for name in chosen if name not in names]:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(names)}")
    for name, (model, steps) in zip(names, MODELS.items(), strict=True):
        if name in chosen:
            measure(model, steps)
    main()
