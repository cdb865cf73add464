"""Random calls of functions whose calls are remembered: each gives what the function itself gives,
tensors, views, gradients and errors, however often and among whatever other calls it comes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import StaticflowError
from staticflow.ops.declaring.by_shape import BY_SHAPE
from staticflow.ops.declaring.foreign import refuses_foreign

FORMS = {m.written.__name__: (fn, refuses_foreign(m.written)) for fn, m in BY_SHAPE.items()}
SHAPES = ((2, 3), (3, 2), (3,), (), (0, 3), (2, 3, 4), (1, 3, 1), (4, 4), (1,))
DTYPES = (*[sf.float32] * 4, sf.float64, sf.float16, sf.bfloat16, sf.int64, sf.int32, sf.bool)

Draw = random.Random


@dataclass(frozen=True)
class Operand:
    """A tensor to be: its layout is (c)ontiguous, (t)ransposed or (s)trided, and it may be a leaf,
    or a view of one, that wants a gradient."""

    shape: tuple[int, ...]
    dtype: sf.DType
    seed: int
    layout: str
    wants: str

    def make(self, leaves: list[sf.Tensor]) -> sf.Tensor:
        values = np.asarray(np.random.RandomState(self.seed).randn(*self.shape) * 3)
        a = values > 0 if self.dtype is sf.bool else values.astype(self.dtype.numpy)
        if self.layout == "t":
            a = np.ascontiguousarray(a.T).T
        if self.layout == "s" and a.ndim:
            a = np.repeat(a, 2, axis=-1)[..., ::2]
        t = sf.from_numpy(np.asarray(a))
        if self.wants and self.dtype.is_floating:
            leaves.append(t.requires_grad_())
            t = t[...] if self.wants == "view" else t
        return t


def operand(draw: Draw, *shapes: tuple[int, ...], dtype: sf.DType | None = None) -> Operand:
    wants = draw.choice(["", "", "leaf", "view"])
    return Operand(
        draw.choice(shapes or SHAPES),
        dtype or draw.choice(DTYPES),
        draw.randrange(3),
        draw.choice("ccts"),
        wants,
    )


def one(*choices: Any) -> Callable[[Draw], Any]:
    return lambda draw: draw.choice(choices)


DIM = one(0, 1, -1, 2, True, 1.0, np.int64(0))
DIMS = one(0, 1, -1, 2, None, (0,), (0, 1), (1, -1), (), [0, 1], True, 0.0, np.int64(1), False)
KEEP = {"keepdim": one(True, False, 1, 0)}
DTYPE = {"dtype": one(None, sf.float64, "float64", sf.float16, np.float32, float, int)}

POSITIONS: dict[str, Sequence[Callable[[Draw], Any]]] = {
    "reshape": [one((2, 3), (-1,), [6], (3, 2), (-1, 1), (6.0,), (True, 6))],
    "flatten": [one(0, 1, -2, True), one(1, 2, -1)],
    "unflatten": [DIM, one((1, -1), [1, -1], (2, 2), (-1, True))],
    "squeeze": [one(0, (0, 2), [0, 2], -1, 1, None)],
    "unsqueeze": [DIM],
    "expand": [one((2, 3), (2, 2, 3), (-1, 3), (True, 3), (4, -1, -1))],
    "permute": [one((1, 0), [1, 0], (0, 1), (2, 0, 1), (-1, 0), (True, False))],
    "transpose": [DIM, DIM],
    "movedim": [one(0, (0, 1), [0, 1], True), one(1, -1, (1, 0), [1, 0], 0)],
    "softmax": [DIM],
    "log_softmax": [DIM],
    "logsumexp": [DIMS],
    "chunk": [one(1, 2, 3, True), DIM],
    "split": [one(1, 2, (1, 1), [1, 2], (2, 1), True), DIM],
    "unbind": [DIM],
    "diagonal": [one(0, 1, -1, True)],
    "flip": [one(0, (0,), [0, -1], True)],
    "roll": [one(1, -1, True), DIM],
    "narrow": [DIM, one(0, 1, -1, True), one(0, 1, 2)],
    "select": [DIM, one(0, 1, -1, True)],
    "cumsum": [DIM],
    "topk": [one(0, 1, 2, True), DIM],
}
NAMES: dict[str, dict[str, Callable[[Draw], Any]]] = {
    "sum": {"dim": DIMS, **KEEP, **DTYPE},
    "mean": {"dim": DIMS, **KEEP, **DTYPE},
    "all": {"dim": DIMS, **KEEP},
    "any": {"dim": DIMS, **KEEP},
    "var": {"dim": DIMS, **KEEP},
    "prod": {"dim": DIM, **KEEP},
    "sort": {"dim": DIM, "descending": one(True, False)},
    "t": {},
    "amax": {"dim": DIMS, **KEEP},
    "amin": {"dim": DIMS, **KEEP},
    "argmax": {"dim": one(None, 0, 1, -1, True, (0,)), **KEEP},
    "argmin": {"dim": one(None, 0, 1, -1, True, (0,)), **KEEP},
    "softmax": DTYPE,
    "logsumexp": KEEP,
}


def of_one(name: str, draw: Draw) -> tuple[list[Any], dict[str, Any]]:
    positions = POSITIONS.get(name, ())
    named = {n: g(draw) for n, g in NAMES.get(name, {}).items() if draw.random() < 0.5}
    return [operand(draw), *(g(draw) for g in positions)], named


def joined(draw: Draw) -> tuple[list[Any], dict[str, Any]]:
    shape, dtype = draw.choice(SHAPES), draw.choice(DTYPES)
    count = draw.choice([1, 2, 3])
    parts = [
        operand(
            draw,
            shape if draw.random() < 0.9 else draw.choice(SHAPES),
            dtype=dtype if draw.random() < 0.7 else None,
        )
        for _ in range(count)
    ]
    return [draw.choice([list, tuple])(parts), draw.choice([0, 1, -1])], {}


def affine(draw: Draw) -> tuple[list[Any], dict[str, Any]]:
    dtype = draw.choice(DTYPES[:6])
    x, weight = (
        operand(draw, (2, 3), (3,), (2, 2, 3), dtype=dtype),
        operand(draw, (4, 3), dtype=dtype),
    )
    return [x, weight, draw.choice([None, operand(draw, (4,), (), dtype=dtype)])], {}


def product(draw: Draw) -> tuple[list[Any], dict[str, Any]]:
    dtype = draw.choice(DTYPES[:5])
    scale = one(0, 1, 0.0, -0.0, True, 2.5, float("inf"), float("nan"))
    named = {n: scale(draw) for n in ("beta", "alpha") if draw.random() < 0.5}
    shapes = draw.choice([(2, 2), (2,), ()]), (2, 3), (3, 2)
    return [operand(draw, s, dtype=dtype) for s in shapes], named


DRAWN: dict[str, Callable[[Draw], tuple[list[Any], dict[str, Any]]]] = {
    **{n: lambda draw, n=n: of_one(n, draw) for n in dict.fromkeys((*POSITIONS, *NAMES))},
    "cat": joined,
    "stack": joined,
    "addmm": product,
    "linear": affine,
}


def made(value: Any, leaves: list[sf.Tensor]) -> Any:
    if isinstance(value, Operand):
        return value.make(leaves)
    if isinstance(value, list | tuple):
        return type(value)(made(v, leaves) for v in value)
    return value


def flat(value: Any) -> list[Any]:
    return [*value] if isinstance(value, tuple | list) else [value]


def outcome(fn: Callable[..., Any], args: Any, named: Any, repeats: bool) -> Any:
    """What a call gives, in words that can be compared."""
    leaves: list[sf.Tensor] = []
    args, named = made(args, leaves), {n: made(v, leaves) for n, v in named.items()}
    given = [t for v in (*args, *named.values()) for t in flat(v) if isinstance(t, sf.Tensor)]
    if repeats and len(args) > 1 and isinstance(args[1], sf.Tensor):
        args[1] = args[0]
    try:
        out = fn(*args, **named)
    except (StaticflowError, TypeError, ValueError, IndexError, OverflowError) as error:
        return type(error).__name__, str(error).partition(", at ")[0][:80]
    outs = flat(out)
    seen: list[Any] = [type(out).__name__]
    for o in outs:
        values = o.detach().double().numpy().tobytes()
        shared = [np.shares_memory(o._data, t._data) for t in given]
        same = [o is t for t in given]
        of_what = o.requires_grad, str(o.grad_fn), o._base is None, o.is_inference()
        seen.append((o.dtype.name, o.shape, o._data.strides, values, shared, same, of_what))
    if sf.is_grad_enabled() and (wanted := [o for o in outs if o.requires_grad]):
        total = sum((o.double() * o.double()).sum() for o in wanted)
        for g in sf.grad(total, leaves, allow_unused=True):
            seen.append(None if g is None else (g.dtype.name, str(g.tolist())))
    return seen


MODES = (*[contextlib.nullcontext] * 4, sf.no_grad, sf.inference_mode)


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_calls(name: str) -> None:
    draw = random.Random(name)
    form, plain = FORMS[name]
    calls = [DRAWN[name](draw) for _ in range(20)]
    computed = 0
    before = sf.get_default_dtype()
    try:
        for _ in range(80):
            args, named = draw.choice(calls)
            mode, repeats = draw.choice(MODES), draw.random() < 0.1
            sf.set_default_dtype(draw.choice([sf.float32, sf.float32, sf.float64]))
            with mode():
                expected = outcome(plain, args, named, repeats)
                assert outcome(form, args, named, repeats) == expected, (args, named)
            computed += isinstance(expected, list)
    finally:
        sf.set_default_dtype(before)
    assert computed > 5  # and not only errors
