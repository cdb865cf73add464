"""Functions of ours on the samples, and in the wrong calls, that PyTorch's own tests draw for the
functions of PyTorch of the same names."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch_sweep import DRAWN, OPS, TIES, UNSIGNED, compare, flatten, is_of, is_plain, unflatten

import staticflow as sf
from staticflow.errors import StaticflowError, SymbolicError
from staticflow.ops.symbols.symbol import Symbol
from staticflow.torch.exchange import tensor_from_torch, tensor_to_torch

__all__ = [
    "LENIENT", "NAMES", "OTHER", "check_open_ones", "check_samples", "check_wrong_calls",
]  # fmt: skip

DTYPES = {
    torch.float64: sf.float64, torch.float32: sf.float32, torch.float16: sf.float16,
    torch.bfloat16: sf.bfloat16, torch.int64: sf.int64, torch.int32: sf.int32,
    torch.int16: sf.int16, torch.int8: sf.int8, torch.uint8: sf.uint8, torch.bool: sf.bool,
}  # fmt: skip


def _always(sample: Any) -> bool:
    return True


OTHER: dict[str, Callable[[Any], bool]] = {
    # a product with floats is float, where PyTorch cuts beta and alpha to integers
    "addbmm": lambda sample: not sample.input.is_floating_point(),
    "addmv": lambda sample: not sample.input.is_floating_point(),
    "baddbmm": lambda sample: not sample.input.is_floating_point(),
    "nn.functional.local_response_norm": lambda sample: not sample.input.is_floating_point(),
    # the sum of bools times integers is an integer
    "addr": lambda sample: sample.input.dtype is torch.bool,
    # bools stay bools where nothing is added up
    "sum_to_size": lambda sample: sample.input.dtype is torch.bool,
    # a batch without a channel dim
    "nn.functional.batch_norm": lambda sample: sample.input.ndim < 2,
    # whether a matrix has full rank, a residual is 0, and what the gels driver leaves empty
    "linalg.lstsq": _always,
    "linalg.lstsq.grad_oriented": _always,
    # the last vectors are any that are orthogonal to the others, and have no gradient here
    "svd": lambda sample: sample.kwargs.get("some") is False,
    "linalg.svd": lambda sample: sample.kwargs.get("full_matrices", True),
    # of what is taken over from PyTorch no memory is beyond it
    "as_strided.partial_views": _always,
}
"""What is other than PyTorch's on purpose: of which operations and samples."""

OTHER_GRADIENT: dict[str, Callable[[Any], bool]] = {
    # PyTorch's gradient is as of the whole matrix, of which one triangle is read
    "cholesky_solve": _always,
    "cholesky_inverse": _always,
    # PyTorch's is that behind a log_softmax
    "nn.functional.ctc_loss": _always,
    # where two elements go to one place, PyTorch's gradient is that of both; the last one stands there
    "nn.functional.max_unpool1d": _always,
    "nn.functional.max_unpool2d": _always,
    "nn.functional.max_unpool3d": _always,
    # PyTorch's float32 loses it where elements are 10,000 apart
    "logcumsumexp": _always,
    # PyTorch's is not symmetric
    "linalg.pinv.hermitian": _always,
}
"""Operations whose gradient is other than PyTorch's on purpose, and of which samples."""

LENIENT = (
    # numbers serve where tensors do
    "must be Tensor, not int", "got (int, Tensor)", "doesn't apply to a 'int' object",
    # nothing is drawn, pooled or lost of nothing
    "cannot sample n_sample <= 0", "non-batch dimensions to have positive length",
    "max_pool1d: Expected 2D or 3D", "Expected non-empty vector or matrix",
    # vectors broadcast, and a number has one dim where a dim is named
    "linalg.cross: inputs must have the same number", "but tensor has no dimensions",
)  # fmt: skip
"""What PyTorch says of wrong calls that are right ones here."""


def own_function(name: str) -> Callable[..., Any] | None:
    """The function that has the name of an operation of PyTorch; None if there is none. Where PyTorch's
    tests call an operation by a function of their own, it is that, with our names for PyTorch's."""
    function = OPS[name].op
    if isinstance(function, types.FunctionType) and "testing" in str(function.__module__):
        names = {**function.__globals__, "torch": sf}
        return types.FunctionType(
            function.__code__, names, name, function.__defaults__, function.__closure__
        )
    path, found = OPS[name].name, sf
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None and hasattr(sf.Tensor, path):
        return lambda x, *args, **kwargs: getattr(x, path)(*args, **kwargs)
    return found if callable(found) else None


OF_TENSORS = frozenset({"item"})
"""Operations that PyTorch's tests call as methods of the class, which are for tensors alone here."""

NAMES = [name for name in OPS if own_function(name) is not None]
"""The operations of PyTorch that have a function here."""


class _LeftOut(Exception):
    """A sample has what has no meaning here, as complex numbers."""


def _own(value: Any) -> Any:
    """A leaf of a sample as ours: tensors are leaves that require a gradient where PyTorch's do."""
    if isinstance(value, torch.Tensor):
        if not is_plain(value) or value.device.type != "cpu" or value.ndim > 64:
            raise _LeftOut
        own = tensor_from_torch(value.detach().clone(memory_format=torch.preserve_format))
        return own.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype) and value in DTYPES:
        return DTYPES[value]
    if isinstance(value, torch.device):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str | type(...) | slice):
        return value
    raise _LeftOut


def _calls(name: str, sample: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A function of tensors that calls ours with a sample, and these tensors."""
    function = own_function(name)
    assert function is not None
    leaves, tree = flatten((sample.input, sample.args, sample.kwargs))
    own = [_own(v) for v in leaves]
    places = [i for i, v in enumerate(own) if isinstance(v, sf.Tensor)]

    def call(*tensors: Any) -> Any:
        now = list(own)
        for i, x in zip(places, tensors, strict=True):
            now[i] = x
        first, args, kwargs = unflatten(now, tree)
        return function(first, *args, **kwargs)

    return call, [own[i] for i in places]


def check_samples(name: str, dtype: Any, count: int, is_jit: bool = False) -> list[str]:
    """What is not PyTorch's of up to ``count`` samples of an operation: values, dtypes, shapes and
    gradients; with ``is_jit`` as a program of open sizes, which may say that only a call can tell."""
    op = OPS[name]
    if dtype not in op.dtypes:
        return []
    faults = []
    for sample in _samples(op, dtype, count):
        if not OTHER.get(name, lambda sample: False)(sample):
            fault = _fault(name, sample, is_jit)
            faults += [f"{name} {_text(sample)}: {fault}"] if fault else []
    return faults


def _samples(op: Any, dtype: Any, count: int) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        gradient = dtype.is_floating_point and op.supports_autograd
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradient))
        step = max(1, len(samples) // count)
        yield from samples[: step * count : step]


def _fault(name: str, sample: Any, is_jit: bool) -> str:
    try:
        torch.manual_seed(0)
        wanted = flatten(OPS[name](sample.input, *sample.args, **sample.kwargs))[0]
        call, tensors = _calls(name, sample)
    except _LeftOut:
        return ""
    except Exception:  # PyTorch does not take it itself
        return ""
    if any(isinstance(w, torch.Tensor) and not is_plain(w) for w in wanted):
        return ""
    try:
        found = flatten((sf.jit(call) if is_jit else call)(*tensors))[0]
        drawn, ties, unsigned = (is_of(name, names) for names in (DRAWN, TIES, UNSIGNED))
        theirs = [_theirs(v) for v in found]
        if unsigned:
            theirs, wanted = ([v.abs() for v in vs] for vs in (theirs, wanted))
        compare(theirs[:1] if ties else theirs, wanted[:1] if ties else wanted, drawn)
        if not (drawn or ties or unsigned or OTHER_GRADIENT.get(name, lambda s: False)(sample)):
            _compare_gradients(sample, wanted, tensors, found)
    except Exception as error:
        if (is_jit and isinstance(error, SymbolicError)) or _is_absent(name, error):
            return ""
        return f"{type(error).__name__}: {error}"
    return ""


def _compare_gradients(
    sample: Any, wanted: Sequence[Any], tensors: Sequence[Any], found: Sequence[Any]
) -> None:
    leaves = flatten((sample.input, sample.args, sample.kwargs))[0]
    given = [v for v in leaves if isinstance(v, torch.Tensor)]
    pairs = [
        (w, f)
        for w, f in zip(wanted, found, strict=True)
        if isinstance(w, torch.Tensor) and w.requires_grad and f.requires_grad
    ]
    places = [i for i, v in enumerate(given) if v.requires_grad and v.is_leaf]
    if not pairs or not places:
        return
    weights = [
        torch.linspace(0.5, 1.5, w.numel(), dtype=torch.float64).reshape(w.shape).to(w.dtype)
        for w, _ in pairs
    ]
    try:
        theirs = torch.autograd.grad(
            [w for w, _ in pairs], [given[i] for i in places], weights, allow_unused=True
        )
    except RuntimeError:  # PyTorch has none
        return
    own = sf.autograd.grad(
        [f for _, f in pairs], [tensors[i] for i in places],
        [tensor_from_torch(w) for w in weights], allow_unused=True,
    )  # fmt: skip
    zeros = [torch.zeros_like(given[i]) for i in places]
    compare(
        [z if g is None else _theirs(g) for g, z in zip(own, zeros, strict=True)],
        [z if g is None else g for g, z in zip(theirs, zeros, strict=True)],
        False,
    )


def check_open_ones(name: str, dtype: Any, count: int) -> list[str]:
    """Programs of placeholders of which no size is known, that give something else than the eager
    call where sizes turn out to be 1; they may refuse that."""
    op = OPS[name]
    if dtype not in op.dtypes or is_of(name, DRAWN) or name in OF_TENSORS:
        return []
    faults: list[str] = []
    for sample in _samples(op, dtype, 1000):
        given = flatten((sample.input, sample.args, sample.kwargs))[0]
        if count and any(isinstance(v, torch.Tensor) and 1 in v.shape for v in given):
            count -= 1
            fault = _fault_of_open(name, sample)
            faults += [f"{name} {_text(sample)}: {fault}"] if fault else []
    return faults


def _fault_of_open(name: str, sample: Any) -> str:
    try:
        call, tensors = _calls(name, sample)
        arrays = [x.detach() for x in tensors]
        wanted = flatten(call(*arrays))[0]
    except (_LeftOut, StaticflowError):
        return ""
    except Exception as error:
        return "" if _is_absent(name, error) else f"{type(error).__name__}: {error}"
    try:
        symbols = [sf.placeholder((None,) * x.ndim, dtype=x.dtype) for x in arrays]
        found = flatten(call(*symbols))[0]
        places = [i for i, v in enumerate(found) if isinstance(v, Symbol)]
        values = sf.compile(symbols, [found[i] for i in places])(*arrays) if places else []
        for i, value in zip(places, values, strict=True):
            found[i] = value
        compare([_theirs(v) for v in found], [_theirs(v) for v in wanted], False)
    except StaticflowError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check_wrong_calls(name: str, is_jit: bool = False) -> list[str]:
    """Wrong calls of an operation, by PyTorch's tests, that are not refused here, or by an error that
    is not ours: eagerly, or as the program of `jit` is written or runs."""
    op, faults = OPS[name], []
    if op.error_inputs_func is None or (is_jit and name in OF_TENSORS):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wrong in op.error_inputs("cpu"):
            sample = wrong.sample_input
            said = _refusal(op, sample)
            try:
                call, tensors = _calls(name, sample)
            except _LeftOut:
                continue
            if not said or any(part in said for part in LENIENT) or "out" in sample.kwargs:
                continue
            try:
                (sf.jit(call) if is_jit else call)(*tensors)
                faults.append(f"{name} {_text(sample)} is not refused; PyTorch: {said}")
            except StaticflowError:
                pass
            except Exception as error:
                of_tensors = is_jit and "doesn't apply to a 'Symbol'" in str(error)
                if not (of_tensors or _is_absent(name, error)):
                    faults.append(f"{name} {_text(sample)}: {type(error).__name__}: {error}")
    return faults


def _refusal(op: Any, sample: Any) -> str:
    """What PyTorch says of a wrong call; nothing if it takes it."""
    try:
        op(sample.input, *sample.args, **sample.kwargs)
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _is_absent(name: str, error: Exception) -> bool:
    """Whether what is called by PyTorch's tests is a name that is not here, as `torch.zero_`."""
    last = OPS[name].name.rpartition(".")[2]
    names = (last, f"{last}_", last.removesuffix("_backward"))
    return isinstance(error, AttributeError) and error.name in names


def _theirs(value: Any) -> Any:
    return tensor_to_torch(torch, value.detach()) if isinstance(value, sf.Tensor) else value


def _text(sample: Any) -> str:
    def text(v: Any) -> str:
        if isinstance(v, torch.Tensor):
            return f"{str(v.dtype).removeprefix('torch.')}{list(v.shape)}"
        if isinstance(v, list | tuple):
            return f"[{', '.join(map(text, v))}]"
        return repr(v)

    named = [f"{k}={text(v)}" for k, v in sample.kwargs.items()]
    return f"({', '.join([text(sample.input), *map(text, sample.args), *named])})"
