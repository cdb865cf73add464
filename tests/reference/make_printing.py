"""Make ``printing.json`` with PyTorch: how it prints the cases of ``printing_cases.py``.

``python tests/reference/make_printing.py`` needs torch and NumPy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "eager"))

from printing_cases import CASES  # noqa: E402


def main() -> None:
    """Write the file."""
    texts = []
    for options, array in CASES:
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**options)
        texts.append(repr(torch.tensor(array)))
    (HERE / "printing.json").write_text(json.dumps(texts, indent=0) + "\n")


if __name__ == "__main__":
    main()
