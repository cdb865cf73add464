"""Operations of several results are recorded by native code as by the general path."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager.mode import EAGER
from staticflow.errors import AutogradError

SEVERAL: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(0),
    "sort": lambda x: x.sort(1, descending=True),
    "topk": lambda x: x.topk(2, 0),
    "median": lambda x: x.median(1),
    "kthvalue": lambda x: x.kthvalue(2, 0),
    "cummax": lambda x: x.cummax(1),
    "slogdet": lambda x: sf.linalg.slogdet(x[:3, :3]),
    "qr": lambda x: sf.linalg.qr(x),
    "var_mean": lambda x: sf.var_mean(x, 1),
}


def leaf(scale: float = 1.0) -> Any:
    made = np.random.default_rng(0).permutation(20).reshape(5, 4).astype(np.float32)
    return sf.from_numpy(made * scale + 1).requires_grad_()


def seen(fn: Callable[[Any], Any], by_python: bool) -> Any:
    """The bytes of results and of the gradient, and which results require one."""
    x = leaf()
    ways = sf.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with ways if by_python else nullcontext():
        outs = fn(x)
    wanted = [o for o in outs if o.requires_grad]
    sf.autograd.backward(wanted, [o.detach().cos() for o in wanted])
    values = [o.detach().numpy().tobytes() for o in outs]
    return values, [o.requires_grad for o in outs], x.grad.numpy().tobytes()


@pytest.mark.parametrize("name", SEVERAL)
def test_as_the_general_path(name: str) -> None:
    EAGER.prepare()
    wanted = seen(SEVERAL[name], by_python=True)
    for _ in range(4):
        assert seen(SEVERAL[name], by_python=False) == wanted


@pytest.mark.parametrize("name", ["max", "min", "sort", "topk", "median", "kthvalue", "cummax"])
def test_no_frame_of_python_records_them(name: str) -> None:
    EAGER.prepare()
    fn, frames = SEVERAL[name], set()
    for _ in range(4):
        fn(leaf())
    x = leaf()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            frames.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        fn(x)
    finally:
        sys.setprofile(None)
    assert not {"finish", "record", "make_entry", "attach"} & frames, frames


def test_what_is_kept_is_found_changed_and_freed() -> None:
    EAGER.prepare()
    for _ in range(3):
        values, places = leaf().max(1)
        values.sum().backward(retain_graph=True)
        values.sum().backward()
        with pytest.raises(AutogradError, match="second time"):
            values.sum().backward()
        values, places = leaf().max(1)
        places.add_(1)
        with pytest.raises(AutogradError, match="changed in place"):
            values.sum().backward()


def test_a_result_leads_to_its_entry_with_its_number() -> None:
    EAGER.prepare()
    for _ in range(4):
        x = leaf()
        q, r = sf.linalg.qr(x)
        node, number = (r * 1).grad_fn.next_functions[0]
        assert number == 1 and node.next_functions[0][0].variable is x
        assert (q * 1).grad_fn.next_functions[0] == (node, 0)
