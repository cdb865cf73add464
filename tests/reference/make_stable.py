"""Writes stable.json: what is right for ``stable_cases.py``, by mpmath, and at which of them each library
is right, in value, gradient and second derivative; and the table of it in docs/passes.md. Run it where
PyTorch, JAX, PyTensor, mpmath and staticflow are, of which those that are missing are left out."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
from stable_cases import CASES, PICKED, WEIGHTS, Case  # noqa: E402

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "passes.md"
mpmath.mp.dps = 1200
LEAST = 1e-36
"""What is as good as 0: not much above the smallest float32 with all its digits."""


def weighted(values: Any) -> Any:
    """One number of the elements of a row."""
    return sum(w * v for w, v in zip(WEIGHTS, values, strict=False))


def slopes(fn: Callable[[Any], Any], row: list[Any]) -> list[Any]:
    """The derivatives of a function of a row, by central differences of many digits."""
    step = (max(map(abs, row)) or mpmath.mpf(1)) * mpmath.mpf(10) ** -100
    found = []
    for j in range(len(row)):
        up, down = list(row), list(row)
        up[j], down[j] = row[j] + step, row[j] - step
        found.append((fn(up) - fn(down)) / (2 * step))
    return found


def truth(case: Case) -> list[list[list[float]]]:
    """Value, gradient and second derivative for each row. Where a norm is 0 its slope is 0."""
    found = []
    for order in range(case.orders):
        rows = []
        for i, row in enumerate(case.rows):
            at = [mpmath.mpf(float(np.float32(v))) for v in row]

            def value(r: Any, i: int = i) -> Any:
                return case.exact(r, mpmath, i)

            def slope(r: Any, value: Any = value) -> Any:
                return slopes(lambda q: weighted(value(q)), r)

            if case.orders == 2 and order and not any(at):
                exact = [mpmath.mpf(0)] * len(at)
            else:
                exact = [value, slope, lambda r: slopes(lambda q: weighted(slope(q)), r)][order](at)
            rows.append([float(v) for v in exact])
        found.append(rows)
    return found


# -- libraries ------------------------------------------------------------------------------------


def one_hot() -> Any:
    return np.eye(3, dtype=np.float32)[list(PICKED)]


def with_staticflow(compiled: bool) -> Callable[..., Any]:
    import staticflow as sf

    indices = sf.tensor([[p] for p in PICKED])
    m = types.SimpleNamespace(
        **{n: getattr(sf, n) for n in ("exp", "log", "log1p", "sqrt", "sin", "cosh", "erfc",
                                       "sigmoid", "logaddexp")},
        softmax=lambda x: x.softmax(1), gather=lambda x: x.gather(1, indices),
        sum=lambda x, keep: x.sum(1, keepdim=keep), mean=lambda x: x.mean(1),
        one_hot=lambda: sf.tensor(one_hot()),
    )  # fmt: skip

    def run(case: Case, order: int, rows: Any) -> Any:
        weights = sf.tensor(WEIGHTS[: rows.shape[1]])
        x = sf.placeholder((None, rows.shape[1]), name="x") if compiled else sf.tensor(rows)
        x = x if compiled else x.requires_grad_()
        out = case.compute(m, x)
        for _ in range(order):
            scaled = out * weights if out.ndim == 2 and out.shape[1] == len(weights) else out
            out = sf.grad(scaled.sum(), x, create_graph=True)
        return (sf.compile([x], out)(rows) if compiled else out.detach()).numpy()

    return run


def with_torch() -> Callable[..., Any]:
    import torch

    indices = torch.tensor([[p] for p in PICKED])
    m = types.SimpleNamespace(
        **{n: getattr(torch, n) for n in ("exp", "log", "log1p", "sqrt", "sin", "cosh", "erfc",
                                          "sigmoid", "logaddexp")},
        softmax=lambda x: x.softmax(1), gather=lambda x: x.gather(1, indices),
        sum=lambda x, keep: x.sum(1, keepdim=keep), mean=lambda x: x.mean(1),
        one_hot=lambda: torch.tensor(one_hot()),
    )  # fmt: skip

    def run(case: Case, order: int, rows: Any) -> Any:
        weights = torch.tensor(WEIGHTS[: rows.shape[1]])
        x = torch.tensor(rows, requires_grad=True)
        out = case.compute(m, x)
        for _ in range(order):
            scaled = out * weights if out.ndim == 2 and out.shape[1] == len(weights) else out
            (out,) = torch.autograd.grad(scaled.sum(), x, create_graph=True)
        return out.detach().numpy()

    return run


def with_jax() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    indices = jnp.array([[p] for p in PICKED])
    m = types.SimpleNamespace(
        **{n: getattr(jnp, n) for n in ("exp", "log", "log1p", "sqrt", "sin", "cosh", "logaddexp")},
        erfc=jax.scipy.special.erfc, sigmoid=jax.nn.sigmoid, softmax=lambda x: jax.nn.softmax(x, 1),
        gather=lambda x: jnp.take_along_axis(x, indices, 1),
        sum=lambda x, keep: x.sum(1, keepdims=keep), mean=lambda x: x.mean(1),
        one_hot=lambda: jnp.array(one_hot()),
    )  # fmt: skip

    def run(case: Case, order: int, rows: Any) -> Any:
        weights = jnp.array(WEIGHTS[: rows.shape[1]])

        def derived(fn: Any) -> Any:
            def total(x: Any) -> Any:
                out = fn(x)
                same = out.ndim == 2 and out.shape[1] == len(weights)
                return (out * weights if same else out).sum()

            return jax.grad(total)

        fn = lambda x: case.compute(m, x)  # noqa: E731
        for _ in range(order):
            fn = derived(fn)
        return np.asarray(jax.jit(fn)(rows))

    return run


def with_pytensor() -> Callable[..., Any]:
    import pytensor
    import pytensor.tensor as pt

    pytensor.config.floatX = "float32"
    m = types.SimpleNamespace(
        **{n: getattr(pt, n) for n in ("exp", "log", "log1p", "sqrt", "sin", "cosh", "erfc",
                                       "sigmoid", "logaddexp")},
        softmax=lambda x: pt.special.softmax(x, axis=1),
        gather=lambda x: x[pt.arange(3), np.array(PICKED)].reshape((3, 1)),
        sum=lambda x, keep: x.sum(axis=1, keepdims=keep), mean=lambda x: x.mean(axis=1),
        one_hot=lambda: pt.as_tensor(one_hot()),
    )  # fmt: skip

    def run(case: Case, order: int, rows: Any) -> Any:
        weights = np.array(WEIGHTS[: rows.shape[1]], np.float32)
        x = pt.matrix("x", dtype="float32")
        out = case.compute(m, x)
        wide = True
        for _ in range(order):
            alone = out.ndim == 1 or (not wide)
            scaled = out if alone or _narrow(case) else out * weights
            out, wide = pytensor.grad(scaled.sum(), x), True
        return pytensor.function([x], out)(rows)

    return run


def _narrow(case: Case) -> bool:
    return "gather" in case.name


LIBRARIES: dict[str, Callable[[], Callable[..., Any]]] = {
    "staticflow, compiled": lambda: with_staticflow(True),
    "staticflow, eager": lambda: with_staticflow(False),
    "PyTorch": with_torch,
    "JAX": with_jax,
    "PyTensor": with_pytensor,
}


def is_right(got: Any, exact: list[list[float]]) -> bool:
    """Whether float32 results are right to three digits of the largest number of a row."""
    with np.errstate(over="ignore"):
        wanted = np.array(exact).astype(np.float32)
    values = np.asarray(got, np.float32).reshape(wanted.shape)
    slack = np.maximum(1e-3 * np.abs(wanted).max(1, keepdims=True), LEAST)
    with np.errstate(invalid="ignore"):
        return bool(np.all((np.abs(values - wanted) <= slack) | (values == wanted)))


def main() -> None:
    found: dict[str, Any] = {"cases": {}, "right": {}}
    exact = {case.name: truth(case) for case in CASES}
    found["cases"] = exact
    for name, make in LIBRARIES.items():
        try:
            run = make()
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        found["right"][name] = {}
        for case in CASES:
            rows = np.array(case.rows, np.float32)
            verdict = []
            for order in range(case.orders):
                with np.errstate(all="ignore"):
                    verdict.append(is_right(run(case, order, rows), exact[case.name][order]))
            found["right"][name][case.name] = verdict
        print(name, sum(map(all, found["right"][name].values())), "of", len(CASES))
    (HERE / "stable.json").write_text(json.dumps(found, indent=1) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table(found) + END + rest.partition(END)[2])


BEGIN, END = "<!-- of make_stable.py -->\n", "<!-- end -->\n"


def table(found: dict[str, Any]) -> str:
    """What each library is right at: v the value, g the gradient, s the second derivative."""
    libraries = list(found["right"])
    lines = [f"| as written | {' | '.join(libraries)} |", "|---" * (len(libraries) + 1) + "|"]
    for name in found["cases"]:
        marks = [
            "".join(
                m if ok else "-" for m, ok in zip("vgs", found["right"][lib][name], strict=False)
            )
            for lib in libraries
        ]
        lines.append(f"| `{name}` | {' | '.join(marks)} |")
    whole = [str(sum(map(all, found["right"][lib].values()))) for lib in libraries]
    lines.append(
        f"| **all that is looked at is right, of {len(found['cases'])}** | {' | '.join(whole)} |"
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
