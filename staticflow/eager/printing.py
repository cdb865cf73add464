"""How eager tensors print: PyTorch's form, to the space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import bool_, get_default_dtype, int64

if TYPE_CHECKING:
    from staticflow.eager.tensor import Tensor

__all__ = [
    "format_tensor", "get_printoptions", "html_of_tensor", "printoptions", "repr_of_tensor",
    "set_printoptions",
]  # fmt: skip

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=float("inf")),
}


class _Current:
    options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Say how tensors print from now on; what is None stays, but for ``sci_mode``.

    ``precision`` digits after the point; tensors of more than ``threshold`` elements show
    ``edgeitems`` at each end of each dim; lines of ``linewidth`` characters; ``profile`` is
    ``"default"``, ``"short"`` or ``"full"``, changed by the others; ``sci_mode`` forces or forbids
    the form ``1.0000e+03``, which None leaves to the numbers.

    >>> import staticflow as sf
    >>> with sf.printoptions(precision=2):
    ...     sf.tensor([3.14159])
    tensor([3.14])
    """
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    base = _Current.options if profile is None else _PROFILES[profile]
    changed: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    _Current.options = replace(base, **changed, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """How tensors print, as the arguments of `set_printoptions`."""
    return asdict(_Current.options)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """The options of `set_printoptions` for a ``with`` block."""
    before = _Current.options
    set_printoptions(**options)
    try:
        yield
    finally:
        _Current.options = before


def _take_ends(array: Array, edge: int) -> Array:
    """The elements that a summary shows."""
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            array = array.take([*range(edge), *range(size - edge, size)], axis)
    return array


def _formatter(array: Array, options: _Options) -> tuple[Callable[[Any], str], int]:
    """How to write each element of ``array``, and the width of a column."""
    if array.dtype.kind != "f":
        return str, max((len(str(v)) for v in array.ravel().tolist()), default=1)
    numbers = array[np.isfinite(array) & (array != 0)]
    digits = options.precision
    if not numbers.size:
        return _whole, 1
    size = np.abs(numbers)
    with np.errstate(over="ignore"):
        wide = size.max() / size.min() > 1000 or size.max() > 1e8 or size.min() < 1e-4
    if wide if options.sci_mode is None else options.sci_mode:
        form: Callable[[Any], str] = f"{{:.{digits}e}}".format
    elif (numbers == np.ceil(numbers)).all():
        form = _whole
    else:
        form = f"{{:.{digits}f}}".format
    return form, max(len(form(v)) for v in numbers.tolist())


def _whole(value: float) -> str:
    return f"{value:.0f}." if np.isfinite(value) else f"{value:.0f}"


def _contents(array: Array, indent: int) -> str:
    options = _Current.options
    summary = array.size > options.threshold
    form, width = _formatter(_take_ends(array, options.edgeitems) if summary else array, options)
    return _Writer(options, summary, form, width).write(array, indent)


@dataclass(frozen=True, slots=True)
class _Writer:
    """How the elements of one tensor are written; a ``summary`` leaves out the inner ones."""

    options: _Options
    summary: bool
    form: Callable[[Any], str]
    width: int

    def write(self, array: Array, indent: int) -> str:
        """``[1., 2.]``, where ``indent`` characters stand before it."""
        if array.ndim == 0:
            return self._element(array)
        if array.ndim == 1:
            items = self._parts(array, self._element, " ..." if self.options.edgeitems else "...")
            fit = max(1, (self.options.linewidth - indent) // (self.width + 2))
            rows = [", ".join(items[i : i + fit]) for i in range(0, len(items), fit)]
            between = ",\n" + " " * (indent + 1)
        else:
            rows = self._parts(array, lambda a: self.write(a, indent + 1), "...")
            between = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
        return f"[{between.join(rows)}]"

    def _element(self, array: Array) -> str:
        return self.form(array.item()).rjust(self.width)

    def _parts(self, array: Array, one: Callable[[Array], str], dots: str) -> list[str]:
        edge = self.options.edgeitems
        if not self.summary or len(array) <= 2 * edge:
            return [one(a) for a in array]
        first, last = array[:edge], array[len(array) - edge :]
        return [*(one(a) for a in first), dots, *(one(a) for a in last)]


def _suffixes(tensor: Tensor) -> Iterator[str]:
    if tensor.device.type != "cpu":
        yield f"device='{tensor.device}'"
    empty = 0 in tensor.shape
    if (empty and tensor.ndim != 1) or (not empty and not _Current.options.edgeitems):
        yield f"size={tuple(tensor.shape)}"
    plain = {get_default_dtype()} if empty else {get_default_dtype(), int64, bool_}
    if tensor.dtype not in plain:
        yield f"dtype={tensor.dtype!r}"
    if tensor.grad_fn is not None:
        yield f"grad_fn={tensor.grad_fn!r}"
    elif tensor.requires_grad:
        yield "requires_grad=True"


def repr_of_tensor(tensor: Tensor) -> str:
    """``tensor([1., 2.], grad_fn=<MulBackward0>)``."""
    prefix = "tensor("
    array = tensor.detach().cpu().numpy()
    if array.dtype.kind not in "biu":
        array = array.astype(np.float64)  # exact, and NumPy can do anything with it
    text = prefix + (_contents(array, len(prefix)) if array.size else "[]")
    column = len(text) - text.rfind("\n") + 1
    for suffix in _suffixes(tensor):
        if column + len(suffix) + 2 > _Current.options.linewidth:
            text += ",\n" + " " * len(prefix)
            column = len(prefix) + len(suffix)
        else:
            text += ", "
            column += len(suffix) + 2
        text += suffix
    return f"{text})"


def format_tensor(tensor: Tensor, spec: str) -> str:
    """A tensor in an f-string: one of no dims as its number, others as they print."""
    if tensor.ndim == 0:
        return format(tensor.item(), spec)
    return object.__format__(tensor, spec)


def html_of_tensor(tensor: Tensor) -> str:
    """A tensor in a notebook: what it is, and its elements folded below."""
    import html  # with its table of all entities

    what = f"{tensor.dtype!r} {list(tensor.shape)} on {tensor.device}"
    return (
        f"<details><summary><code>{html.escape(what)}</code></summary>"
        f"<pre>{html.escape(repr(tensor))}</pre></details>"
    )
