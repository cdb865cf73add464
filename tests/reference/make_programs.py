"""Writes programs.json: what the programs of tests/support/programs give in PyTorch, for
test_pytorch_programs.py. Run it where PyTorch is."""

import importlib
import json
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "support"))
ROOMS = "", ".nn", ".nn.functional", ".nn.utils.rnn", ".optim", ".utils.checkpoint"
for room in ROOMS:  # the change of the imports
    sys.modules[f"staticflow{room}"] = importlib.import_module(f"torch{room}")

NAMES = "corners", "derivatives", "tensors", "training"
of = importlib.import_module("programs.results")
programs = of.programs_of(*(importlib.import_module(f"programs.{name}") for name in NAMES))
results = {name: of.results_of(program) for name, program in programs.items()}
lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in results.items()]
text = ",\n".join(lines)
(TESTS / "reference" / "programs.json").write_text(f"{{\n{text}\n}}\n")
