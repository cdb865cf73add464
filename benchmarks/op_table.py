"""The operations that `ops.py` measures, and the arrays that they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Array", "Operation", "Tensors", "arrays_of", "operations"]

Array = np.ndarray[Any, Any]
Operation = Callable[[Any, Any], Any]
"""Of a library with PyTorch's names and the `Tensors` of it."""

UNARY = [
    "abs",
    "neg",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "square",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "relu",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "i0",
    "logit",
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "sign",
    "nan_to_num",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "logical_not",
]
FUNCTIONAL = [
    "gelu",
    "silu",
    "softplus",
    "elu",
    "selu",
    "celu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "softsign",
    "tanhshrink",
    "relu6",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "maximum",
    "minimum",
    "fmax",
    "atan2",
    "fmod",
    "remainder",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "copysign",
    "nextafter",
    "floor_divide",
    "eq",
    "lt",
    "logical_and",
    "xlogy",
]
ALONG = [
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "max",
    "min",
    "argmax",
    "argmin",
    "var",
    "std",
    "logsumexp",
    "softmax",
    "log_softmax",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "median",
    "all",
    "any",
    "count_nonzero",
    "nansum",
    "nanmean",
    "norm",
    "diff",
]
OF_ALL = [
    "sum",
    "mean",
    "prod",
    "amax",
    "max",
    "argmax",
    "argmin",
    "var",
    "std",
    "norm",
    "median",
    "all",
    "any",
    "count_nonzero",
    "nansum",
    "nanmean",
    "nonzero",
    "unique",
]

UNIT = ("asin", "acos", "atanh", "erfinv", "logit")
"""Functions of numbers between -1 or 0 and 1."""
FLAT = [
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "logical_not",
    "nextafter",
    "floor_divide",
    "eq",
    "lt",
    "logical_and",
    "argmax",
    "argmin",
    "argsort",
    "all",
    "any",
    "count_nonzero",
    "nonzero",
    "unique",
    "bincount",
    "histc",
    "searchsorted",
    "bucketize",
    "one_hot",
    "isin",
]
"""Functions without a gradient worth the name."""


STEPPED = ("x", "y", "unit", "over1", "flags")
"""Arrays of which the layouts are."""


class Tensors:
    """The arrays of an operation, in a library: ``x`` and ``y`` in a layout, and what goes with
    them. ``x`` is laid out inside of the operation, so that compiled programs see how it lies."""

    def __init__(self, lib: Any, layout: str, leaves: dict[str, Any]) -> None:
        self.lib, self.layout, self.leaves = lib, layout, leaves

    def __getattr__(self, name: str) -> Any:
        leaf = self.leaves[name]
        if name in STEPPED and self.layout == "stepped":
            return leaf[:, ::2]
        if name in STEPPED and self.layout == "expanded":
            return leaf.expand(*self.leaves["full"].shape)
        return leaf.t() if self.layout == "columns" and leaf.ndim == 2 else leaf

    @property
    def flat(self) -> Any:
        """``x`` as a vector, in the order in which it lies where that is whole."""
        whole = self.layout not in ("stepped", "expanded")
        return (self.leaves["x"] if whole else self.x).reshape(-1)


def arrays_of(shape: tuple[int, int], layout: str, dtype: str = "float32") -> dict[str, Array]:
    """The arrays by name, the real ones in a dtype. Those that a layout turns are square or turned
    before; those that it steps through are twice as wide, and those that it expands one row."""
    rng = np.random.default_rng(0)
    rows, columns = shape
    if layout == "threes":
        rows, columns = max(rows * columns // 3, 1), 3
    shown = (columns, rows) if layout == "columns" else (rows, columns)
    side = min(int((rows * columns) ** 0.5), 512)
    square = rng.standard_normal((side, side)).astype(np.float32)
    arrays = {
        "x": rng.standard_normal((rows, columns)).astype(np.float32),
        "y": rng.uniform(0.5, 1.5, (rows, columns)).astype(np.float32),
        "unit": rng.uniform(0.01, 0.99, (rows, columns)).astype(np.float32),
        "over1": rng.uniform(1.1, 3.0, (rows, columns)).astype(np.float32),
        "flags": rng.random((rows, columns)) > 0.5,
        "across": rng.integers(0, shown[-1], (rows, columns)),
        "down": rng.integers(0, shown[0], (rows, columns)),
        "which": rng.integers(0, shown[0], shown[0]),
        "few": rng.integers(0, min(10, shown[0]), shown[0]),
        "vector": rng.standard_normal(shown[-1]).astype(np.float32),
        "numbers": rng.integers(0, 1000, rows * columns),
        "borders": np.sort(rng.standard_normal(1000).astype(np.float32)),
        "square": square,
        "definite": square @ square.T + np.float32(side) * np.eye(side, dtype=np.float32),
        "lower": np.tril(square) / np.float32(side) + 2 * np.eye(side, dtype=np.float32),
        "right": rng.standard_normal((side, 1)).astype(np.float32),
        "small": (
            rng.standard_normal((max(rows * columns // 9, 1), 3, 3)) * 0.2 + 2 * np.eye(3)
        ).astype(np.float32),
        "small_right": rng.standard_normal((max(rows * columns // 9, 1), 3, 1)).astype(np.float32),
    }
    if layout == "stepped":
        arrays |= {n: np.repeat(arrays[n], 2, axis=1) for n in STEPPED}
    if layout == "expanded":
        arrays |= {n: arrays[n][:1].copy() for n in STEPPED}
    arrays["full"] = np.empty((rows, columns), np.bool_)
    if dtype != "float32":
        scale = 10 if np.dtype(dtype).kind == "i" else 1
        arrays |= {n: (a * scale).astype(dtype) for n, a in arrays.items() if a.dtype == np.float32}
    return arrays


def along(name: str, source: str, dim: int) -> Operation:
    """A function along a dim of an array; of several results the first."""

    def operation(lib: Any, t: Tensors) -> Any:
        result = getattr(lib, name)(getattr(t, source), dim=dim)
        return result[0] if isinstance(result, tuple) else result

    return operation


def operations() -> dict[str, tuple[Operation, tuple[str, ...], tuple[str, ...]]]:
    """For each its function, the arrays that it uses, and those that are differentiated."""
    found: dict[str, tuple[Operation, tuple[str, ...], tuple[str, ...]]] = {}

    def add(name: str, fn: Operation, uses: str, wrt: str = "") -> None:
        found[name] = fn, tuple(uses.split()), tuple(wrt.split())

    def wrt(name: str, arrays: str) -> str:
        return "" if name in FLAT else arrays

    for name in UNARY:
        array = "unit" if name in UNIT else "over1" if name == "acosh" else "y"
        array = "x" if name in ("abs", "neg", "relu", "sin", "cos", "tanh", "sigmoid") else array
        add(name, lambda lib, t, n=name, a=array: getattr(lib, n)(getattr(t, a)), array,
            wrt(name, array))  # fmt: skip
    for name in FUNCTIONAL:
        add(name, lambda lib, t, n=name: getattr(lib.nn.functional, n)(t.x), "x", "x")
    for name in BINARY:
        add(name, lambda lib, t, n=name: getattr(lib, n)(t.y, t.unit), "y unit",
            wrt(name, "y unit"))  # fmt: skip
    for name in ALONG:
        source = "flags" if name in ("all", "any") else "y" if name in ("prod", "cumprod") else "x"
        for dim in (0, 1):
            add(f"{name} over dim {dim}", along(name, source, dim), source, wrt(name, source))
    for name in OF_ALL:
        source = "flags" if name in ("all", "any", "nonzero") else "x"
        source = "y" if name == "prod" else source
        add(name, lambda lib, t, n=name, s=source: getattr(lib, n)(getattr(t, s)), source,
            wrt(name, source))  # fmt: skip

    def both(name: str, fn: Callable[[Any, Any, int], Any], uses: str, of: str = "") -> None:
        for dim in (0, 1):
            add(f"{name} along dim {dim}", lambda lib, t, d=dim: fn(lib, t, d), uses, of)

    both("sort", lambda lib, t, d: lib.sort(t.x, dim=d, stable=True)[0], "x", "x")
    both("argsort", lambda lib, t, d: lib.argsort(t.x, dim=d, stable=True), "x")
    both("topk(1)", lambda lib, t, d: lib.topk(t.x, 1, d)[0], "x", "x")
    both("topk(3)", lambda lib, t, d: lib.topk(t.x, 3, d)[0], "x", "x")
    add("topk(100) of all", lambda lib, t: lib.topk(t.flat, 100)[0], "x", "x")
    add("sort of all", lambda lib, t: lib.sort(t.flat, stable=True)[0], "x", "x")
    add("sort of int64", lambda lib, t: lib.sort(t.numbers, stable=True)[0], "numbers")
    add("argsort of all", lambda lib, t: lib.argsort(t.flat, stable=True), "x")
    add("cumsum of all", lambda lib, t: lib.cumsum(t.flat, 0), "x", "x")
    add("kthvalue of all", lambda lib, t: lib.kthvalue(t.flat, 7)[0], "x", "x")
    both("kthvalue", lambda lib, t, d: lib.kthvalue(t.x, 2, d)[0], "x", "x")
    add("quantile of all", lambda lib, t: lib.quantile(t.flat, 0.3), "x", "x")
    both("quantile", lambda lib, t, d: lib.quantile(t.x, 0.3, d), "x", "x")
    both("flip", lambda lib, t, d: lib.flip(t.x, (d,)), "x", "x")
    both("roll", lambda lib, t, d: lib.roll(t.x, 1, d), "x", "x")
    both("cat", lambda lib, t, d: lib.cat([t.x, t.y], d), "x y", "x y")
    add("stack", lambda lib, t: lib.stack([t.x, t.y]), "x y", "x y")
    add("clone of x.t()", lambda lib, t: t.x.t().contiguous(), "x", "x")
    add("repeat", lambda lib, t: t.x.repeat(1, 2), "x", "x")
    both("repeat_interleave", lambda lib, t, d: t.x.repeat_interleave(2, d), "x", "x")
    add("tril", lambda lib, t: lib.tril(t.x), "x", "x")
    add("where", lambda lib, t: lib.where(t.flags, t.x, t.y), "flags x y", "x y")
    add("clamp", lambda lib, t: lib.clamp(t.x, -1, 1), "x", "x")
    add("lerp", lambda lib, t: lib.lerp(t.x, t.y, 0.3), "x y", "x y")
    add("addcmul", lambda lib, t: lib.addcmul(t.x, t.y, t.unit), "x y unit", "x y unit")
    add("masked_fill", lambda lib, t: t.x.masked_fill(t.flags, 0.0), "flags x", "x")
    add("x[flags]", lambda lib, t: t.x[t.flags], "flags x", "x")
    add("gather across", lambda lib, t: lib.gather(t.x, 1, t.across), "x across", "x")
    add("gather down", lambda lib, t: lib.gather(t.x, 0, t.down), "x down", "x")
    add("scatter_add across", lambda lib, t: t.y.scatter_add(1, t.across, t.x), "x y across", "x")
    add("scatter_add down", lambda lib, t: t.y.scatter_add(0, t.down, t.x), "x y down", "x")
    add("index_select", lambda lib, t: lib.index_select(t.x, 0, t.which), "x which", "x")
    add("x[which]", lambda lib, t: t.x[t.which], "x which", "x")
    add("index_add", lambda lib, t: t.y.index_add(0, t.which, t.x), "x y which", "x")
    add("index_add to few", lambda lib, t: t.y.index_add(0, t.few, t.x), "x y few", "x")
    add("take", lambda lib, t: lib.take(t.flat, t.numbers), "x numbers", "x")
    add("bincount", lambda lib, t: lib.bincount(t.numbers, minlength=1000), "numbers")
    add("histc", lambda lib, t: lib.histc(t.flat, 100, -3, 3), "x")
    add("searchsorted", lambda lib, t: lib.searchsorted(t.borders, t.flat), "x borders")
    add("bucketize", lambda lib, t: lib.bucketize(t.flat, t.borders), "x borders")
    add("one_hot", lambda lib, t: lib.nn.functional.one_hot(t.few, 10), "few")
    add("unique of int64", lambda lib, t: lib.unique(t.numbers), "numbers")
    add("x + vector", lambda lib, t: t.x + t.vector, "x vector", "x vector")
    add("x @ vector", lambda lib, t: t.x @ t.vector, "x vector", "x vector")
    add("dot", lambda lib, t: lib.dot(t.flat, t.leaves["y"].reshape(-1)), "x y", "x y")
    add("layer_norm", lambda lib, t: lib.nn.functional.layer_norm(t.x, (t.x.shape[1],)), "x", "x")
    add("normalize", lambda lib, t: lib.nn.functional.normalize(t.x, dim=1), "x", "x")
    add("cosine_similarity",
        lambda lib, t: lib.nn.functional.cosine_similarity(t.x, t.y, 1), "x y", "x y")  # fmt: skip
    add("cross_entropy", lambda lib, t: lib.nn.functional.cross_entropy(t.x, t.across[:, 0]),
        "x across", "x")  # fmt: skip
    add("cov", lambda lib, t: lib.cov(t.square), "square", "square")
    add("cdist", lambda lib, t: lib.cdist(t.square, t.definite), "square definite", "square")
    add("cholesky", lambda lib, t: lib.linalg.cholesky(t.definite), "definite", "definite")
    add("solve, 1 right side", lambda lib, t: lib.linalg.solve(t.definite, t.leaves["right"]),
        "definite right", "definite right")  # fmt: skip
    add("inv", lambda lib, t: lib.linalg.inv(t.definite), "definite", "definite")
    add("slogdet", lambda lib, t: lib.linalg.slogdet(t.definite)[1], "definite", "definite")
    for name, right in {"1 right side": "right", "as many right sides": "square"}.items():
        add(f"solve_triangular, {name}",
            lambda lib, t, r=right: lib.linalg.solve_triangular(
                t.leaves["lower"], t.leaves[r], upper=False
            ), f"lower {right}", f"lower {right}")  # fmt: skip
    add("solve of 3 x 3", lambda lib, t: lib.linalg.solve(t.small, t.small_right),
        "small small_right", "small small_right")  # fmt: skip
    add("inv of 3 x 3", lambda lib, t: lib.linalg.inv(t.small), "small", "small")
    add("products of 3 x 3", lambda lib, t: t.small @ t.small, "small", "small")
    add("x[:, 1:] - x[:, :-1]", lambda lib, t: t.x[:, 1:] - t.x[:, :-1], "x", "x")
    return found
