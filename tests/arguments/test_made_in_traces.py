"""Every function that makes a tensor makes one where a graph is written, too: by jit, in the body of
a loop, in a function for many rows."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import staticflow as sf

GIVEN: dict[str, Any] = {
    "N": 3, "col": 3, "data": [1.0, 2.0], "end": 5, "fill_value": 1.5, "high": 3, "input": sf.ones(2, 2),
    "mean": sf.zeros(2), "n": 3, "obj": [1.0, 2.0], "p": 0.5, "row": 3, "s": 1.5, "shape": (2, 3), "size": (2, 3), "start": 1,
    "std": sf.ones(2), "steps": 4, "window_length": 4,
}  # fmt: skip
"""What arguments without a default are given, by their names."""

NOT_HERE = {
    "asarray": "makes a leaf where it is asked for a gradient",
    "from_dlpack": "takes arrays of others", "frombuffer": "takes bytes", "from_numpy": "takes arrays",
    "placeholder": "is an input of a graph",
    "randint": "is drawn by sizes of its own, of which tests/ops has some", "randint_like": "as randint",
}  # fmt: skip


def makers() -> dict[str, inspect.Signature]:
    found = {}
    for name in sorted(n for n in dir(sf) if n[0] != "_" and n not in NOT_HERE):
        fn = getattr(sf, name)
        if callable(fn) and not isinstance(fn, type):
            signature = inspect.signature(fn)
            if {"dtype", "device"} <= signature.parameters.keys():
                found[name] = signature
    return found


MAKERS = makers()
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"dtype": "float64"}, {"dtype": sf.float32}, {"device": "cpu"}, {"requires_grad": False},
)  # fmt: skip


def arguments_of(signature: inspect.Signature) -> list[Any]:
    given: list[Any] = []
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            given += [2, 3]
        elif p.default is p.empty and p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_KEYWORD:
            given.append(GIVEN[p.name])
    return given


@pytest.mark.parametrize("name", MAKERS)
def test_a_tensor_is_made_where_a_graph_is_written(name: str) -> None:
    signature = MAKERS[name]
    given = arguments_of(signature)
    for options in OPTIONS:
        if not options.keys() <= signature.parameters.keys():
            continue

        def made(x: Any, options: dict[str, Any] = options) -> Any:
            return getattr(sf, name)(*given, **options).double().sum() * 0 + x

        x = sf.ones((), dtype="float64")
        assert sf.jit(made)(x).item() == 1.0
        assert sf.vmap(made, randomness="different")(x.expand(2)).tolist() == [1.0, 1.0]
        assert sf.scan(lambda c, _: (made(c), c), x, length=2)[0].item() == 1.0
        assert sf.jit(lambda x: sf.fori_loop(0, 2, lambda i, c: made(c), x))(x).item() == 1.0
