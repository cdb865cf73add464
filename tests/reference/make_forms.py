"""Stores what PyTorch gives for `form_cases.py`: ``python tests/reference/make_forms.py``, where
torch is installed."""

import json
import warnings
from pathlib import Path

import numpy as np
import torch
from form_cases import CASES, run

warnings.simplefilter("ignore")


def stored(out: object) -> list[dict[str, object]]:
    outs = out if isinstance(out, tuple) else (out,)
    arrays = [np.asarray(o) for o in outs]
    return [{"dtype": str(a.dtype), "shape": a.shape, "data": a.ravel().tolist()} for a in arrays]


found = {name: stored(run(torch, case, torch.tensor)) for name, case in CASES.items()}
text = ",\n".join(f"{json.dumps(name)}: {json.dumps(out)}" for name, out in found.items())
(Path(__file__).parent / "forms.json").write_text("{\n" + text + "\n}\n")
