"""Calls of every public function and method of ops with arguments in forms drawn at random: other
dtypes, no dims, nothing in them, numbers for tensors, tuples for ints, NumPy's scalars, words.

A form is data: `draw` makes it, `perform` calls a library with it, and `outcome` says what came of it
in a way that two libraries can be compared by. `make_random_forms.py` compares with PyTorch.
"""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from wrong_arguments import CALLS, Call

import staticflow as sf

__all__ = ["GRADIENTS", "differs", "draw", "names", "outcome", "perform"]

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
_NO_COUNTERPART = {
    "sf.cast", "sf.expand", "sf.get_printoptions", "sf.multi_dot", "sf.one_hot", "sf.promote",
    "sf.vector_norm", "F.attention_weights", "F.causal_mask",
}  # fmt: skip
_RANDOM = (
    "rand", "dropout", "multinomial", "normal", "bernoulli", "rrelu", "empty", "uniform", "cauchy",
    "exponential", "geometric", "poisson", "scaled_dot", "gumbel",
)  # fmt: skip
"""What is drawn, or not said: only dtypes and shapes are compared."""

_SETTINGS = (
    "default_dtype",
    "rng_state",
    "num_threads",
    "initial_seed",
    "printoptions",
    "share_memory",
)

_WORDS: dict[str, tuple[Any, ...]] = {
    "reduction": ("none", "mean", "sum", "words"),
    "rounding_mode": ("trunc", "floor", None, "up"),
    "reduce": ("sum", "prod", "mean", "amax", "amin", "words"),
    "indexing": ("ij", "xy"),
    "ord": (1, -1, 2, 0, 2.5, float("inf"), -float("inf"), "fro", "nuc", None),
    "p": (1, 2, 0, 3.5, float("inf"), "fro", "nuc", None, True),
    "mode": ("nearest", "bilinear", "area", "reflect", "replicate", "constant", "sum", "max", "words"),
    "approximate": ("none", "tanh"),
    "side": ("left", "right"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "UPLO": ("L", "U"),
    "dim": (0, 1, -1, -2, (0, 1), (-1,), [0], [1, 0], (), None, 5),
    "dtype": (*({"dtype": d} for d in DTYPES), None),
    "keepdim": (True, False, 1),
    "correction": (0, 1, 2, 0.5, True, None),
    "min": (0.3, 0, None), "max": (0.6, 1, None),
    "alpha": (2, 0.5, -1, True), "beta": (2, 0.5, 0),
    "n": (0, 1, 2, 3), "decimals": (0, 1, -1),
    "size": (None, 3, (3, 4)), "scale_factor": (None, 2, 2.0, (2.0, 1.0), 1.5),
    "weight": (None,), "bias": (None,), "prepend": (None,), "append": (None,),
    "minlength": (0, 5), "bins": (3, 4), "descending": (True,), "largest": (False,),
    "accumulate": (True,), "include_self": (False,), "right": (True,), "padding": (0, 1, "same", (1, 0)),
    "stride": (1, 2, None, (2, 1)), "dilation": (1, 2), "ceil_mode": (True,), "align_corners": (True,),
    "return_inverse": (True,), "return_counts": (True,), "unbiased": (True, False),
}  # fmt: skip
"""What an argument of a name may be in addition."""


def names() -> list[str]:
    """The functions and methods that PyTorch has as well, as ``room.name``."""
    return [
        name
        for name in CALLS
        if name not in _NO_COUNTERPART and not any(word in name for word in _SETTINGS)
    ]


# -- values as data -------------------------------------------------------------------------------


def _encoded(value: Any) -> Any:
    """A value as JSON has it; raises `TypeError` for what is no data."""
    if isinstance(value, sf.Tensor):
        data = value.detach()
        floats = data.to(sf.float64) if value.dtype.is_floating else data
        numbers = floats.numpy().round(3).ravel().tolist()
        return {"tensor": value.dtype.numpy.name, "shape": list(value.shape), "data": numbers}
    if isinstance(value, type(sf.float32)):
        return {"dtype": value.numpy.name}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(v) for v in value]}
    if isinstance(value, list):
        return [_encoded(v) for v in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(type(value).__name__)


def _decoded(lib: Any, value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, list):
        return [_decoded(lib, v, leaves) for v in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_decoded(lib, v, leaves) for v in value["tuple"])
    if "dtype" in value:
        return getattr(lib, value["dtype"])
    if "numpy" in value:
        return np.dtype(value["numpy"]).type(value["data"])
    name = value["tensor"]
    data = np.array(value["data"], "float32" if name == "bfloat16" else name)
    x = lib.tensor(data.reshape(value["shape"]), dtype=getattr(lib, name))
    if value.get("grad"):
        x.requires_grad_()
        leaves.append(x)
    return x


# -- forms ----------------------------------------------------------------------------------------


def _as_tensor(value: Any, dtype: str) -> Any:
    return {"tensor": dtype, "shape": [], "data": [value]}


def _of_tensor(x: dict[str, Any], rng: random.Random) -> Any:
    shape = x["shape"]
    first = x["data"][0] if x["data"] else 0
    array = np.array(x["data"]).reshape(shape)
    forms: list[Callable[[], Any]] = [
        lambda: x | {"tensor": rng.choice(DTYPES)},
        lambda: x | {"shape": [], "data": [first]},
        lambda: x | {"shape": [1, *shape]},
        lambda: x | {"shape": [0], "data": []},
        lambda: first,
        lambda: {"numpy": "float64", "data": float(first)},
        lambda: None,
    ]
    if shape and 0 not in shape:
        at = rng.randrange(len(shape))
        row = array.take([0], at)
        nothing = [n if d != at else 0 for d, n in enumerate(shape)]
        forms += [
            lambda: x | {"shape": list(row.shape), "data": row.ravel().tolist()},
            lambda: x | {"shape": nothing, "data": []},
            lambda: x | {"shape": shape[1:], "data": array[0].ravel().tolist()},
        ]
    return rng.choice(forms)()


def _of_number(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return rng.choice([not value, int(value), None, {"numpy": "bool", "data": value}])
    if isinstance(value, int):
        array = {"numpy": "int64", "data": value}
        several = [{"tuple": [value]}, [value], {"tuple": [value, value]}]
        return rng.choice(
            [-1, -value, 0, 1, value + 1, float(value), bool(value), array, *several,
             _as_tensor(value, "int64"), None]
        )  # fmt: skip
    array = {"numpy": rng.choice(["float32", "float64"]), "data": value}
    return rng.choice(
        [
            -value,
            0.0,
            1,
            True,
            int(value) if abs(value) < 9 else 2,
            array,
            _as_tensor(value, "float32"),
            None,
            [value],
        ]
    )


def _of_several(value: Any, rng: random.Random) -> Any:
    items = value["tuple"] if isinstance(value, dict) else value
    pack: Callable[[list[Any]], Any] = (
        (lambda v: v) if isinstance(value, dict) else (lambda v: {"tuple": v})
    )
    if not items or not all(type(v) is int for v in items):
        return pack(items) if rng.random() < 0.5 else items[:1]
    arrays = [{"numpy": "int64", "data": v} for v in items]
    zero_d = [_as_tensor(v, "int64") for v in items]
    return rng.choice(
        [items[::-1], {"tuple": items[::-1]}, pack(items), items[0], items[:1], [], {"tuple": arrays},
         {"tuple": zero_d}, {"tuple": [-1, *items[1:]]}]
    )  # fmt: skip


def _another(name: str, value: Any, rng: random.Random) -> Any:
    """Another form of the argument ``name``."""
    pool = _WORDS.get(name)
    if pool and (rng.random() < 0.7 or value is None):
        chosen = rng.choice(pool)
        return {"tuple": list(chosen)} if isinstance(chosen, tuple) else chosen
    if isinstance(value, dict) and "tensor" in value:
        return _of_tensor(value, rng)
    if isinstance(value, list) or (isinstance(value, dict) and "tuple" in value):
        return _of_several(value, rng)
    if type(value) in (bool, int, float):
        return _of_number(value, rng)
    return value


def _tensors(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and "tensor" in value:
        yield value
    elif isinstance(value, dict | list):
        for v in value if isinstance(value, list) else value.get("tuple", ()):
            yield from _tensors(v)


def _style(
    call: Call, given: dict[str, Any], rng: random.Random
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments by position and by keyword; some that are as by default left out."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    by_position = True
    for i, p in enumerate(call.parameters):
        value = given[p.name]
        if p.kind is p.VAR_POSITIONAL:
            args += value["tuple"] if isinstance(value, dict) and "tuple" in value else [value]
        elif p.kind is p.VAR_KEYWORD or (p.default is not p.empty and value == p.default):
            by_position = False
        elif p.kind is p.KEYWORD_ONLY or not by_position or (i and rng.random() < 0.3):
            named[p.name] = value
            by_position = False
        else:
            args.append(value)
    return args, named


def draw(name: str, seed: int) -> dict[str, Any] | None:
    """A form of a call of ``name``, or None where its arguments are no data."""
    call = CALLS[name]
    rng = random.Random(zlib.crc32(f"{name} {seed}".encode()))
    try:
        given = {
            k: None if isinstance(v, dict) else _encoded(v) for k, v in call.arguments().items()
        }
    except (TypeError, sf.StaticflowError):
        return None
    may_change = [
        p.name
        for p in call.parameters
        if p.kind is not p.VAR_KEYWORD and p.name not in ("generator", "device", "out")
    ]
    own = call.parameters[0].name if call.room == "m" else ""
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])):
        which = rng.choice(may_change) if may_change else None
        if which is not None:
            other = _another(which, given[which], rng)
            is_tensor = isinstance(other, dict) and "tensor" in other
            given[which] = other if which != own or is_tensor else given[which]
    if rng.random() < 0.3:  # all of one dtype
        dtype = rng.choice(DTYPES)
        for v in given.values():
            for x in _tensors(v):
                if x["tensor"] not in ("int64", "bool"):
                    x["tensor"] = dtype
    if rng.random() < 0.5 and not name.endswith("_"):
        for v in given.values():
            for x in _tensors(v):
                if x["tensor"] in ("float32", "float64"):
                    x["grad"] = True
    args, named = _style(call, given, rng)
    return {"call": name, "args": args, "named": named}


# -- what comes of them ---------------------------------------------------------------------------


def _function(lib: Any, name: str) -> Callable[..., Any]:
    room, _, own = name.partition(".")
    if room == "m":
        return lambda x, *args, **named: getattr(x, own)(*args, **named)
    rooms = {"sf": lambda: lib, "F": lambda: lib.nn.functional}
    function: Callable[..., Any] = getattr(rooms.get(room, lambda: getattr(lib, room))(), own)
    return function


def perform(lib: Any, form: dict[str, Any]) -> tuple[Any, list[Any]]:
    """What the library gives for the form, and the tensors that want a gradient."""
    leaves: list[Any] = []
    args = [_decoded(lib, v, leaves) for v in form["args"]]
    named = {k: _decoded(lib, v, leaves) for k, v in form["named"].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _function(lib, form["call"])(*args, **named), leaves


def _flat(out: Any) -> list[Any]:
    if isinstance(out, tuple | list):
        return [x for part in out for x in _flat(part)]
    return [out]


def _stored(x: Any, only_kind: bool) -> Any:
    """A result as JSON has it."""
    if not hasattr(x, "dtype"):
        return {"value": x if type(x) in (bool, int, float) else str(x)}
    kind = getattr(x.dtype, "numpy", x.dtype)
    kept: dict[str, Any] = {"dtype": str(kind).removeprefix("torch."), "shape": list(x.shape)}
    if not only_kind:
        wide = x.detach().double() if x.dtype.is_floating_point else x.detach()
        kept["data"] = np.asarray(wide.numpy()).ravel().tolist()
    return kept


GRADIENTS = 0.75
"""The first cotangent; the next ones are larger by as much."""


def outcome(lib: Any, form: dict[str, Any]) -> dict[str, Any]:
    """The results and gradients as data, or ``{"refused": the message}``."""
    try:
        out, leaves = perform(lib, form)
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    results = _flat(out)
    is_drawn = any(word in form["call"] for word in _RANDOM)
    said: dict[str, Any] = {"results": [_stored(x, is_drawn) for x in results]}
    said["requires_grad"] = [bool(getattr(x, "requires_grad", False)) for x in results]
    if leaves and any(said["requires_grad"]) and not is_drawn:
        with_history = [x for x in results if getattr(x, "requires_grad", False)]
        total = sum((x.double() * (GRADIENTS * (i + 1))).sum() for i, x in enumerate(with_history))
        grads = lib.autograd.grad(total, leaves, allow_unused=True)
        said["gradients"] = [None if g is None else _stored(g, False) for g in grads]
    return said


_WITHIN = {"float64": 1e-7, "float32": 2e-5, "float16": 2e-3, "bfloat16": 2e-2}


def _apart(here: Any, there: Any, what: str) -> str:
    if here is None or there is None:
        return (
            "" if here == there else f"{what}: {here and 'given'} here, {there and 'given'} there"
        )
    if here.keys() != there.keys():
        return f"{what}: of {sorted(here)} here, {sorted(there)} there"
    for key in ("value", "dtype", "shape"):
        if here.get(key) != there.get(key):
            return f"{what}: {key} {here.get(key)} here, {there.get(key)} there"
    if "data" in here:
        a, b = (np.array(v["data"], np.float64) for v in (here, there))
        within = _WITHIN.get(here["dtype"], 0)
        largest = np.abs(b[np.isfinite(b)]).max(initial=0)
        least = within * min(max(largest, 0.1), 1e6)
        if not np.allclose(a, b, within, least, equal_nan=True):
            bad = ~np.isclose(a, b, within, least, equal_nan=True)
            return f"{what}: {a[bad][:3]} here, {b[bad][:3]} there"
    return ""


def differs(here: dict[str, Any], there: dict[str, Any]) -> str:
    """What two outcomes have not in common, "" if nothing."""
    if "refused" in here or "refused" in there:
        if here.keys() == there.keys():
            return ""
        return "refused here" if "refused" in here else "refused there"
    if len(here["results"]) != len(there["results"]):
        return f"{len(here['results'])} results here, {len(there['results'])} there"
    pairs = zip(here["results"], there["results"], strict=True)
    for i, (a, b) in enumerate(pairs):
        if apart := _apart(a, b, f"result {i}"):
            return apart
    if here["requires_grad"] != there["requires_grad"]:
        return f"requires_grad {here['requires_grad']} here, {there['requires_grad']} there"
    for i, (a, b) in enumerate(
        zip(here.get("gradients", ()), there.get("gradients", ()), strict=True)
    ):
        zero = {"data": [0.0]}
        a, b = (a, b) if a and b else (a or (b and zero), b or (a and zero))
        if a is zero or b is zero:
            if any((b if a is zero else a)["data"]):
                return f"gradient {i}: None on one side"
        elif apart := _apart(a, b, f"gradient {i}"):
            return apart
    return ""
