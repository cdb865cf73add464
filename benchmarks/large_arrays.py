"""Eager operations on large arrays, one at a time: one and sixteen million elements.

What counts is that each is one pass over memory at its speed, and the matrix product near the peak;
forward, and forward with backward where there is a derivative.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import Contestant, brief, threads

SIDES = {"1 M": 1024, "16 M": 4096}
"""Rows and columns of the matrices."""
PRODUCT_SIDES = (512, 1024, 2048)

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
Operation = Callable[[Any, Any], Any]
"""Of a library with PyTorch's names and the tensors of `Tensors`."""

ARRAYS: dict[str, Callable[[Rng, int], Array]] = {
    "x": lambda rng, n: rng.standard_normal((n, n), np.float32),
    "y": lambda rng, n: rng.random((n, n), np.float32) + np.float32(0.5),
    "z": lambda rng, n: np.ones((n, n), np.float32),
    "flags": lambda rng, n: rng.random((n, n)) > 0.5,
    "integers": lambda rng, n: rng.integers(0, n, (n, n)),
    "counts": lambda rng, n: rng.integers(1, 100, (n, n)),
    "double": lambda rng, n: rng.standard_normal((n, n)),
    "row": lambda rng, n: rng.standard_normal((1, n), np.float32),
    "column": lambda rng, n: rng.standard_normal((n, 1), np.float32),
    "weight": lambda rng, n: rng.standard_normal(n, np.float32),
    "which": lambda rng, n: rng.integers(0, n, n),
    "logits": lambda rng, n: rng.standard_normal((n, 1000), np.float32),
    "labels": lambda rng, n: rng.integers(0, 1000, n),
    "thin": lambda rng, n: rng.standard_normal((16 * n, 16), np.float32),
    "images": lambda rng, n: rng.standard_normal((4, n // 4, 8, n // 8), np.float32),
    "batch": lambda rng, n: rng.standard_normal((64, 128, 128), np.float32),
    "batch2": lambda rng, n: rng.standard_normal((64, 128, 128), np.float32),
}
"""The arrays by name, for matrices of n by n."""


WRITTEN = ("z",)
"""Arrays that operations change. All contestants read the others in the same memory: how fast that
is depends on the pages that the system gave for it."""


@functools.lru_cache(8)
def made(name: str, side: int) -> Array:
    """An array of `ARRAYS`."""
    return ARRAYS[name](np.random.default_rng(zlib.crc32(name.encode())), side)


class Tensors(dict[str, Any]):
    """The tensors of a library by the names of `ARRAYS`, made when they are first asked for."""

    def __init__(self, lib: Any, side: int, differentiated: tuple[str, ...]) -> None:
        super().__init__()
        self.lib, self.side, self.differentiated = lib, side, differentiated

    def __missing__(self, name: str) -> Any:
        array = made(name, self.side)
        self[name] = tensor = self.lib.from_numpy(array.copy() if name in WRITTEN else array)
        return tensor.requires_grad_() if name in self.differentiated else tensor


def functional(name: str, *others: str, **options: Any) -> Operation:
    """A function of ``nn.functional`` on x, or on the tensors named."""
    names = others or ("x",)
    return lambda lib, t: getattr(lib.nn.functional, name)(*(t[n] for n in names), **options)


def over(name: str, dim: int | None, **options: Any) -> Operation:
    """A method that reduces x over a dim or all."""
    dims = () if dim is None else (dim,)
    return lambda lib, t: getattr(t["x"], name)(*dims, **options)


def narrow(fn: Callable[[Any, Any], Any], dtype: str) -> Operation:
    """A function of x and y as floats of 16 bits."""
    made: dict[Any, tuple[Any, Any]] = {}

    def operation(lib: Any, t: Any) -> Any:
        if lib not in made:
            made[lib] = t["x"].to(getattr(lib, dtype)), t["y"].to(getattr(lib, dtype))
        return fn(*made[lib])

    return operation


X, XY = ("x",), ("x", "y")
BY_BATCH = {"running_mean": None, "running_var": None, "training": True}

ELEMENTWISE: dict[str, tuple[Operation, tuple[str, ...]]] = {
    "x + y": (lambda lib, t: t["x"] + t["y"], XY),
    "x * y": (lambda lib, t: t["x"] * t["y"], XY),
    "x / y": (lambda lib, t: t["x"] / t["y"], XY),
    "2.5 x": (lambda lib, t: t["x"] * 2.5, X),
    "x ** 2": (lambda lib, t: t["x"] ** 2, X),
    "y ** 1.7": (lambda lib, t: t["y"] ** 1.7, ("y",)),
    "y ** x": (lambda lib, t: t["y"] ** t["x"], ("x", "y")),
    "exp": (lambda lib, t: t["x"].exp(), X),
    "log": (lambda lib, t: t["y"].log(), ("y",)),
    "sqrt": (lambda lib, t: t["y"].sqrt(), ("y",)),
    "sin": (lambda lib, t: t["x"].sin(), X),
    "tanh": (lambda lib, t: t["x"].tanh(), X),
    "sigmoid": (lambda lib, t: t["x"].sigmoid(), X),
    "relu": (lambda lib, t: t["x"].relu(), X),
    "gelu": (functional("gelu"), X),
    "gelu by tanh": (functional("gelu", approximate="tanh"), X),
    "silu": (functional("silu"), X),
    "exp of float64": (lambda lib, t: t["double"].exp(), ("double",)),
    "abs": (lambda lib, t: t["x"].abs(), X),
    "clamp": (lambda lib, t: t["x"].clamp(-1, 1), X),
    "clamp by arrays": (lambda lib, t: lib.clamp(t["x"], t["row"], t["column"]), X),
    "maximum": (lambda lib, t: lib.maximum(t["x"], t["y"]), XY),
    "where": (lambda lib, t: lib.where(t["flags"], t["x"], t["y"]), XY),
    "x > y": (lambda lib, t: t["x"] > t["y"], ()),
    "x == 0": (lambda lib, t: t["x"] == 0, ()),
    "i + i of int64": (lambda lib, t: t["integers"] + t["integers"], ()),
    "i // j of int64": (lambda lib, t: t["integers"] // t["counts"], ()),
    "i & j of int64": (lambda lib, t: t["integers"] & t["counts"], ()),
    "x + y of float16": (narrow(lambda x, y: x + y, "float16"), ()),
    "x * y of bfloat16": (narrow(lambda x, y: x * y, "bfloat16"), ()),
    "2.5 x of bfloat16": (narrow(lambda x, y: x * 2.5, "bfloat16"), ()),
    "x ** 3": (lambda lib, t: t["x"] ** 3, X),
    "y ** 0.5": (lambda lib, t: t["y"] ** 0.5, ("y",)),
    "x % 2": (lambda lib, t: t["x"] % 2.0, X),
    "x // y": (lambda lib, t: t["x"] // t["y"], ()),
    "sign": (lambda lib, t: t["x"].sign(), ()),
    "floor": (lambda lib, t: t["x"].floor(), ()),
    "atan2": (lambda lib, t: lib.atan2(t["x"], t["y"]), XY),
    "nan_to_num": (lambda lib, t: t["x"].nan_to_num(), X),
    "glu": (functional("glu"), X),
    "where with a number": (lambda lib, t: lib.where(t["flags"], t["x"], 0.0), X),
    "to float64": (lambda lib, t: t["x"].to(lib.float64), X),
    "to float16": (lambda lib, t: t["x"].to(lib.float16), X),
    "to bfloat16": (lambda lib, t: t["x"].to(lib.bfloat16).to(lib.float32), X),
    "to int32": (lambda lib, t: t["x"].to(lib.int32), ()),
    "bool to float32": (lambda lib, t: t["flags"].to(lib.float32), ()),
    "x + row": (lambda lib, t: t["x"] + t["row"], ("x", "row")),
    "x * column": (lambda lib, t: t["x"] * t["column"], ("x", "column")),
    "row + column": (lambda lib, t: t["row"] + t["column"], ("row", "column")),
    "x.t() + y": (lambda lib, t: t["x"].t() + t["y"], XY),
    "exp of x[:, :-1]": (lambda lib, t: t["x"][:, :-1].exp(), X),
    "x[:, 1:] - x[:, :-1]": (lambda lib, t: t["x"][:, 1:] - t["x"][:, :-1], X),
    "2.5 x[:, ::2]": (lambda lib, t: t["x"][:, ::2] * 2.5, X),
    "x[:, :-1].add_(1)": (lambda lib, t: t["z"][:, :-1].add_(1.0), ()),
    "x.add_(y)": (lambda lib, t: t["z"].add_(t["y"]), ()),
    "x.mul_(-1)": (lambda lib, t: t["z"].mul_(-1.0), ()),
    "x.relu_()": (lambda lib, t: t["z"].relu_(), ()),
    "x.copy_(y)": (lambda lib, t: t["z"].copy_(t["y"]), ()),
    "x.addcmul_(x, y)": (lambda lib, t: t["z"].addcmul_(t["x"], t["y"], value=0.1), ()),
    "ones": (lambda lib, t: lib.ones(t["x"].shape), ()),
    "arange": (lambda lib, t: lib.arange(t["x"].numel()), ()),
    "eye": (lambda lib, t: lib.eye(t["x"].shape[0]), ()),
    "rand": (lambda lib, t: lib.rand(t["x"].shape).sum() * 0 + 1, ()),
    "randn": (lambda lib, t: lib.randn(t["x"].shape).sum() * 0 + 1, ()),
    "dropout": (lambda lib, t: lib.nn.functional.dropout(t["x"], 0.5).sum() * 0 + 1, ()),
}  # fmt: skip

REDUCTIONS: dict[str, tuple[Operation, tuple[str, ...]]] = {
    **{
        f"{name} over {what}": (over(name, dim), X)
        for name in ("sum", "mean", "amax", "var")
        for what, dim in (("all", None), ("rows", 1), ("columns", 0))
        if (name, dim) != ("amax", None)
    },
    "max over all": (lambda lib, t: t["x"].max(), X),
    "max with index, rows": (lambda lib, t: t["x"].max(1)[0], X),
    "sum of x[:, :-1], rows": (lambda lib, t: t["x"][:, :-1].sum(1), X),
    "sum of x.t()": (lambda lib, t: t["x"].t().sum(1), X),
    "count_nonzero": (lambda lib, t: lib.count_nonzero(t["flags"]), ()),
    "any over rows": (lambda lib, t: t["flags"].any(1), ()),
    "median over rows": (lambda lib, t: t["x"].median(1)[0], X),
    "argmax over all": (over("argmax", None), ()),
    "argmax over rows": (over("argmax", 1), ()),
    "argmax over columns": (over("argmax", 0), ()),
    "prod over rows": (lambda lib, t: t["y"].prod(1), ("y",)),
    "sum of int64": (lambda lib, t: t["integers"].sum(), ()),
    "nansum over rows": (lambda lib, t: t["x"].nansum(1), X),
    "any": (lambda lib, t: t["flags"].any(), ()),
    "norm": (lambda lib, t: lib.linalg.vector_norm(t["x"]), X),
    "logsumexp": (lambda lib, t: t["x"].logsumexp(1), X),
    "softmax": (lambda lib, t: t["x"].softmax(1), X),
    "softmax over columns": (lambda lib, t: t["x"].softmax(0), X),
    "log_softmax": (lambda lib, t: t["x"].log_softmax(1), X),
    "layer_norm": (
        lambda lib, t: lib.nn.functional.layer_norm(
            t["x"], (t["x"].shape[1],), t["weight"], t["row"][0]
        ),
        ("x", "weight"),
    ),
    "cross_entropy of 1000": (functional("cross_entropy", "logits", "labels"), ("logits",)),
    "mse_loss": (functional("mse_loss", "x", "y"), X),
    "batch_norm": (functional("batch_norm", "images", **BY_BATCH), ("images",)),
    "cdist": (lambda lib, t: lib.cdist(t["x"][:, :64], t["y"][:, :64]), X),
    "cumsum over rows": (over("cumsum", 1), X),
    "cumsum over columns": (over("cumsum", 0), X),
    "cumsum over rows of float16": (narrow(lambda x, y: x.cumsum(1), "float16"), ()),
    "max with index, rows of float16": (narrow(lambda x, y: x.max(1)[0], "float16"), ()),
    "x.view(-1) @ y.view(-1)": (lambda lib, t: t["x"].view(-1) @ t["y"].view(-1), ()),
    "x.view(-1) @ y.view(-1) of float16": (
        narrow(lambda x, y: x.view(-1) @ y.view(-1), "float16"),
        (),
    ),
    "x @ row of float16": (narrow(lambda x, y: x @ y[0], "float16"), ()),
}

MOVES: dict[str, tuple[Operation, tuple[str, ...]]] = {
    "sort": (lambda lib, t: t["x"].sort(dim=1, stable=True)[0], X),
    "argsort of columns": (lambda lib, t: t["x"].argsort(dim=0, stable=True), ()),
    "sort of int64": (lambda lib, t: t["integers"].sort(dim=1, stable=True)[0], ()),
    "topk": (lambda lib, t: t["x"].topk(10, 1)[0], X),
    "topk(3) of columns": (lambda lib, t: t["x"].t().topk(3, 1)[0], ()),
    "topk(100) of all": (lambda lib, t: t["x"].view(-1).topk(100)[0], ()),
    "topk(100) of all, int64": (lambda lib, t: t["integers"].view(-1).topk(100)[0], ()),
    "kthvalue of all, int64": (lambda lib, t: t["integers"].view(-1).kthvalue(7)[0], ()),
    "searchsorted of int64": (
        lambda lib, t: lib.searchsorted(t["which"].sort()[0], t["integers"]),
        (),
    ),
    "gather": (lambda lib, t: t["x"].gather(1, t["integers"]), X),
    "index_select": (lambda lib, t: t["x"].index_select(0, t["which"]), X),
    "x[which]": (lambda lib, t: t["x"][t["which"]], X),
    "embedding": (functional("embedding", "which", "x"), X),
    "masked_fill": (lambda lib, t: t["x"].masked_fill(t["flags"], 0.0), X),
    "x[flags]": (lambda lib, t: t["x"][t["flags"]], X),
    "nonzero": (lambda lib, t: t["flags"].nonzero(), ()),
    "x[flags] = 1": (lambda lib, t: t["z"].__setitem__(t["flags"], 1.0) or t["z"], ()),
    "scatter_add": (lambda lib, t: t["y"].scatter_add(1, t["integers"], t["x"]), X),
    "index_add": (lambda lib, t: t["y"].index_add(0, t["which"], t["x"]), X),
    "x.index_add_(rows)": (lambda lib, t: t["z"].index_add_(0, t["which"], t["x"]), ()),
    "x.index_put_(rows)": (lambda lib, t: t["z"].index_put_((t["which"],), t["y"]), ()),
    "x.scatter_add_": (lambda lib, t: t["z"].scatter_add_(1, t["integers"], t["x"]), ()),
    "x.copy_(y.t())": (lambda lib, t: t["z"].copy_(t["y"].t()), ()),
    "x.tril_()": (lambda lib, t: t["z"].tril_(), ()),
    "repeat_interleave": (lambda lib, t: t["x"].repeat_interleave(2, 1), X),
    "randperm": (lambda lib, t: lib.randperm(t["x"].numel()).sum() * 0 + 1, ()),
    "x.t() in a row": (lambda lib, t: t["x"].t().reshape(-1), X),
    "2.5 cat": (lambda lib, t: lib.cat([t["x"], t["y"]], 0) * 2.5, XY),
    "2.5 cat of columns": (lambda lib, t: lib.cat([t["x"], t["y"]], 1) * 2.5, XY),
    "2.5 stack": (lambda lib, t: lib.stack([t["x"], t["y"]]) * 2.5, XY),
    "pad": (functional("pad", "x", pad=(1, 2, 3, 4)), X),
    "repeat": (lambda lib, t: t["x"].repeat(1, 2), X),
    "expanded copy": (lambda lib, t: t["row"].expand(t["x"].shape).contiguous(), ()),
    "permuted copy": (lambda lib, t: t["images"].permute(0, 2, 3, 1).contiguous(), ()),
    "clone": (lambda lib, t: t["x"].clone(), X),
    "transposed copy": (lambda lib, t: t["x"].t().contiguous(), X),
    "flip": (lambda lib, t: t["x"].flip(1), X),
    "tril": (lambda lib, t: t["x"].tril(), X),
}

PRODUCTS: dict[str, tuple[Operation, tuple[str, ...]]] = {
    "x @ y": (lambda lib, t: t["x"] @ t["y"], XY),
    "x @ y.t()": (lambda lib, t: t["x"] @ t["y"].t(), XY),
    "x.t() @ y": (lambda lib, t: t["x"].t() @ t["y"], XY),
    "x @ vector": (lambda lib, t: t["x"] @ t["weight"], ("x", "weight")),
    "linear": (functional("linear", "x", "y", "weight"), ("x", "y", "weight")),
}

BATCHES: dict[str, tuple[Operation, tuple[str, ...]]] = {
    "64 products of 128": (lambda lib, t: t["batch"] @ t["batch2"], ("batch", "batch2")),
    "64 transposed products": (
        lambda lib, t: t["batch"] @ t["batch2"].transpose(1, 2),
        ("batch", "batch2"),
    ),
    "tall times small": (lambda lib, t: t["thin"] @ t["thin"][:16], ("thin",)),
    "integers @ integers[:, :64]": (
        lambda lib, t: t["integers"] @ t["integers"][:, :64].contiguous(),
        (),
    ),
    "thin.t() @ thin": (lambda lib, t: t["thin"].t() @ t["thin"], ("thin",)),
}


def contestant(
    lib: Any, operation: Operation, side: int, differentiated: tuple[str, ...] = ()
) -> Contestant:
    """An operation in a library that has PyTorch's names; its gradients, if any tensors are to be
    ``differentiated``."""
    tensors = Tensors(lib, side, differentiated)
    last: Any = None
    ct: Any = None

    def run(n: int) -> None:
        nonlocal last
        for _ in range(n):
            last = operation(lib, tensors)

    def run_back(n: int) -> None:
        nonlocal ct, last
        for _ in range(n):
            for name in differentiated:
                tensors[name].grad = None
            last = operation(lib, tensors)
            if ct is None:
                drawn = np.random.default_rng(1).standard_normal(tuple(last.shape), np.float32)
                ct = lib.from_numpy(drawn).to(last.dtype)
            last.backward(ct)

    def result() -> tuple[Any, ...]:
        gradients = (tensors[name].grad for name in differentiated)
        return tuple(r.detach().to(lib.float64).numpy() for r in (last, *gradients))

    return Contestant(run_back if differentiated else run, result)


def staticflow_eager(*what: Any) -> Contestant:
    import staticflow as sf

    return contestant(sf, *what)


def pytorch_eager(*what: Any) -> Contestant:
    import torch

    torch.set_num_threads(threads())
    return contestant(torch, *what)


def tables() -> dict[str, Any]:
    """A table for each operation, size, and way."""
    sized = [
        (f"{name}, {size}", *what, side)
        for size, side in SIDES.items()
        for name, what in (ELEMENTWISE | REDUCTIONS | MOVES).items()
    ]
    products = [
        (f"{name}, {n}", *what, n) for n in PRODUCT_SIDES for name, what in PRODUCTS.items()
    ]
    batches = [(name, *what, SIDES["1 M"]) for name, what in BATCHES.items()]
    found = {}
    for title, operation, differentiated, side in (*sized, *products, *batches):
        for way, wrt in {"forward": (), "and backward": differentiated}.items():
            if wrt or way == "forward":
                found[f"{title}, {way}"] = {
                    "staticflow eager": partial(staticflow_eager, operation, side, wrt),
                    "PyTorch eager": partial(pytorch_eager, operation, side, wrt),
                }
    return found


if __name__ == "__main__":
    brief(__doc__, tables())
