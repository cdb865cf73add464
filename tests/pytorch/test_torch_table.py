"""The table of operations in ``docs/torch.md`` is that of the rows."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

import staticflow as sf
from staticflow.torch.table import REASONS, why_refused

torch = pytest.importorskip("torch", reason="which operations are core is said by PyTorch")

SCRIPT = Path(__file__).parents[1] / "reference" / "make_torch.py"


@pytest.mark.skipif(torch.__version__.split("+")[0] != "2.13.0", reason="the page is of 2.13")
def test_the_page_has_every_operation() -> None:
    spec = importlib.util.spec_from_file_location("make_torch", SCRIPT)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    shown = made.PAGE.read_text().split(made.BEGIN)[1].split(made.END)[0]
    assert shown == made.table(), "run python tests/reference/make_torch.py"
    assert not [name for name in made.ROWS if not exists(name)]


def test_no_function_that_is_here_is_said_to_be_missing() -> None:
    rooms = (sf, sf.linalg, sf.special, sf.nn.functional)
    for name in (n for n in REASONS if why_refused(n) == "there is no such function here"):
        own = name.split(".")[1].removeprefix("linalg_").removeprefix("special_")
        assert not [room for room in rooms if hasattr(room, own)], name


def exists(name: str) -> bool:
    """Whether PyTorch has the overload that a row is named by."""
    importlib.import_module("torch._inductor.inductor_prims")  # which adds some to torch.ops.prims
    room, packet, overload = name.split(".")
    return overload in getattr(getattr(torch.ops, room), packet).overloads()
