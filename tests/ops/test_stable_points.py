"""What is written has a finite value, slope or second derivative, so what a stable form says of it
has one, too: each form, at zeros of either sign and at ordinary points, as it is and as it is
written."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.ops.declaring.thread import stabilizing
from staticflow.ops.symbols.pattern import Either, Pattern, Rule, Var, attr
from staticflow.ops.symbols.stable_forms import STABLE_FORMS

POINTS = (-2.0, -0.5, -0.0, 0.0, 0.5, 1.0)

ATTRS = {"dims": (1,), "keepdim": True, "dim": 1, "along": 1, "index": 0}

BY_INDICES = ("gathered", "indexed", "selected", "sliced", "reshaped", "exponentials")
"""Forms of elements that are chosen, and of a product: what is computed of each is in others."""

RULES = [r for r in STABLE_FORMS if not any(word in r.name for word in BY_INDICES)]


def variables(pattern: Any) -> list[str]:
    if isinstance(pattern, Var):
        return [pattern.name]
    inside = [pattern.options[0]] if isinstance(pattern, Either) else getattr(pattern, "args", ())
    return list(dict.fromkeys(name for p in inside for name in variables(p)))


def write(pattern: Any, values: dict[str, Any]) -> Any:
    """What a pattern matches, of symbols in the places of its variables."""
    if isinstance(pattern, Var):
        return values[pattern.name]
    if isinstance(pattern, Either):
        return write(pattern.options[0], values)
    if not isinstance(pattern, Pattern):
        return sf.full_like(next(iter(values.values())), float(pattern))
    assert pattern.op is not None
    attrs = {k: ATTRS[v.name] if isinstance(v, attr) else v for k, v in pattern.attrs.items()}
    return pattern.op(*(write(p, values) for p in pattern.args), **attrs)


def derivatives(y: Any, xs: list[Any]) -> list[Any]:
    """Of first and second order, zeros where there are none."""
    found = []
    for slope in slopes(y, xs):
        found += [slope, *slopes(slope, xs)]
    return found


def slopes(y: Any, xs: list[Any]) -> list[Any]:
    found = sf.grad(y.sum(), xs, create_graph=True, allow_unused=True)
    return [sf.zeros_like(x) if f is None else f for x, f in zip(xs, found, strict=True)]


def all_of(r: Rule, names: list[str], points: Any, stable: bool) -> list[Any]:
    xs = [sf.placeholder((points.shape[1], 1), dtype=sf.float64, name=name) for name in names]
    with stabilizing(stable):
        y = write(r.pattern, dict(zip(names, xs, strict=True)))
        program = sf.compile(xs, [y, *derivatives(y, xs)])
    return [t.numpy() for t in program(*(p[:, None] for p in points))]


@pytest.mark.parametrize("r", RULES, ids=[f"{r.name} {i}" for i, r in enumerate(RULES)])
def test_nothing_that_is_written_is_lost(r: Rule) -> None:
    names = variables(r.pattern)
    some = POINTS if len(names) < 3 else (-0.5, 0.0, 2.0)
    if len(names) > 3:
        some = some[1:]
    points = np.array(list(itertools.product(some, repeat=len(names)))).T
    written, said = (all_of(r, names, points, stable) for stable in (False, True))
    is_number = np.isfinite(written[0])
    for order, (plain, form) in enumerate(zip(written, said, strict=True)):
        lost = is_number & np.isfinite(plain) & ~np.isfinite(form)
        assert not lost.any(), (order, points[:, lost[:, 0]], plain[lost], form[lost])
        both = is_number & np.isfinite(plain) & np.isfinite(form)
        if r.name != "sinc_near_0":  # whose second derivative, as it is written, is wrong there
            np.testing.assert_allclose(form[both], plain[both], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", [2, 3, 4, 6, 7])
def test_a_length_whose_first_parts_are_0(count: int) -> None:
    """The slope of ``sqrt(x x + y y + z z)`` by x was NaN at ``(0, 0, 1)``, and so was that by
    ``x x + y y`` for whoever asks for it."""
    xs = [sf.placeholder((), dtype=sf.float64, name=f"x{i}") for i in range(count)]
    parts = list(itertools.accumulate(x * x for x in xs))
    program = sf.compile(xs, sf.grad(sf.sqrt(parts[-1]), [*xs, parts[-2]]))
    *slopes, of_sum = (t.item() for t in program(*[0.0] * (count - 1), 3.0))
    assert slopes == [0.0] * (count - 1) + [1.0] and of_sum == pytest.approx(1 / 6)
