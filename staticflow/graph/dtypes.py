"""Element types and the one promotion table, used by both modes and by both back ends.

The table is PyTorch's ``result_type``: a dtype of a higher *category* (bool < integer < floating)
wins over a lower one whatever its width; inside a category the wider one wins, and two that do not
contain each other (``uint8`` with ``int8``, ``float16`` with ``bfloat16``) meet in the next wider
one. Python scalars are weak: they raise the category only, to the default dtype of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here

__all__ = [
    "BY_NUMPY",
    "BY_PYTHON",
    "DTYPES",
    "DType",
    "bfloat16",
    "bool_",
    "dtype_of",
    "dtype_of_number",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_dtype_name",
    "promote",
    "set_default_dtype",
    "uint8",
    "weak_dtype",
]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type: ``sf.float32`` and its siblings. Compared by identity.

    ``name`` is the long name, ``short`` the one of the text, ``kind`` one of ``b`` (bool),
    ``i`` (signed), ``u`` (unsigned) and ``f`` (floating), ``bits`` the size in memory.
    """

    name: str
    short: str
    kind: str
    bits: int
    numpy: np.dtype[Any]

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in memory."""
        return self.bits // 8

    @property
    def is_floating(self) -> bool:
        """Whether this is a floating dtype; only those carry gradients."""
        return self.kind == "f"

    is_floating_point = is_floating
    is_complex = False

    @property
    def is_signed(self) -> bool:
        """Whether it has negative numbers."""
        return self.kind in "if"

    @property
    def category(self) -> int:
        """0 for bool, 1 for integers, 2 for floating dtypes."""
        return {"b": 0, "i": 1, "u": 1, "f": 2}[self.kind]

    def __repr__(self) -> str:
        return f"staticflow.{self.name}"

    def __str__(self) -> str:
        return self.short

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_of, (self.name,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


bool_ = DType("bool", "bool", "b", 8, np.dtype(np.bool_))
uint8 = DType("uint8", "u8", "u", 8, np.dtype(np.uint8))
int8 = DType("int8", "i8", "i", 8, np.dtype(np.int8))
int16 = DType("int16", "i16", "i", 16, np.dtype(np.int16))
int32 = DType("int32", "i32", "i", 32, np.dtype(np.int32))
int64 = DType("int64", "i64", "i", 64, np.dtype(np.int64))
float16 = DType("float16", "f16", "f", 16, np.dtype(np.float16))
bfloat16 = DType("bfloat16", "bf16", "f", 16, np.dtype(ml_dtypes.bfloat16))
float32 = DType("float32", "f32", "f", 32, np.dtype(np.float32))
float64 = DType("float64", "f64", "f", 64, np.dtype(np.float64))

DTYPES: tuple[DType, ...] = (
    bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64,
)  # fmt: skip

_ALIASES = {"half": float16, "float": float32, "double": float64, "long": int64, "int": int32}
_BY_NAME = {d.name: d for d in DTYPES} | {d.short: d for d in DTYPES} | _ALIASES
BY_NUMPY: dict[Any, DType] = {d.numpy: d for d in DTYPES}
BY_PYTHON: dict[type, DType] = {bool: bool_, int: int64, float: float32}
"""What Python numbers become alone; that of ``float`` is changed by `set_default_dtype`."""
_BY_SCALAR_TYPE: dict[type, DType] = {d.numpy.type: d for d in DTYPES}


def dtype_of(dtype: Any) -> DType:
    """The `DType` that ``dtype`` names: a `DType`, a name, a NumPy dtype or scalar type, or a
    Python type (``bool``, ``int``, ``float`` give bool, int64, float64).

    >>> dtype_of("float32"), dtype_of(np.int64), dtype_of(float)
    (staticflow.float32, staticflow.int64, staticflow.float64)

    Raises `DTypeError` for anything else.
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        found = _BY_NAME.get(dtype)
    elif isinstance(dtype, type):
        found = float64 if dtype is float else BY_PYTHON.get(dtype) or _BY_SCALAR_TYPE.get(dtype)
    else:
        found = BY_NUMPY.get(dtype) if isinstance(dtype, np.dtype) else None
    if found is None:
        known = ", ".join(d.name for d in DTYPES)
        native = BY_NUMPY.get(dtype.newbyteorder("=")) if isinstance(dtype, np.dtype) else None
        if native is not None:
            raise DTypeError(
                f"{dtype!r} has the bytes of each number in the order of another kind of machine; "
                f"they must be in this one's: array.astype({native.name!r}), "
                f"at {format_locs(here())}",
                dtype,
                f"the dtype {native.name}",
            )
        if isinstance(dtype, np.dtype) and dtype.kind == "c":
            raise DTypeError(
                f"{dtype!r} is complex, and staticflow has no complex numbers; keep the real and "
                f"the imaginary part as two tensors, at {format_locs(here())}",
                dtype,
                f"one of the dtypes {known}",
            )
        raise DTypeError(
            f"{dtype!r} is no dtype that staticflow knows; use one of {known}, "
            f"at {format_locs(here())}",
            dtype,
            f"one of the dtypes {known}",
        )
    return found


def is_dtype_name(name: str) -> bool:
    """Whether `dtype_of` knows the word."""
    return name in _BY_NAME


def dtype_of_number(number: Any) -> DType:
    """The dtype that a number of Python's or NumPy's has alone: of Python's floats the default."""
    return BY_PYTHON.get(type(number)) or dtype_of(type(number))


def set_default_dtype(dtype: Any) -> None:
    """Make ``dtype`` (a floating one) what Python floats become, what tensors are made in unless
    said otherwise, and what the results of ``div``, ``exp`` and the like of integers are.

    It holds for the whole process, and for what is traced from then on. Raises `DTypeError` for
    integers and bools.
    """
    wanted = dtype_of(dtype)
    if not wanted.is_floating:
        raise DTypeError(
            f"set_default_dtype: {wanted.name} is not floating; integers always become int64, "
            f"at {format_locs(here())}"
        )
    BY_PYTHON[float] = wanted


def get_default_dtype() -> DType:
    """The dtype of Python floats: float32 unless `set_default_dtype` has changed it."""
    return BY_PYTHON[float]


# Inside a category: what two dtypes that do not contain each other meet in.
_MEETS: dict[frozenset[DType], DType] = {
    frozenset((uint8, int8)): int16,
    frozenset((float16, bfloat16)): float32,
}


@cache
def _promote_two(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.category != b.category:
        return a if a.category > b.category else b
    return _MEETS.get(frozenset((a, b))) or (a if a.bits > b.bits else b)


def promote(dtypes: Iterable[DType]) -> DType:
    """The dtype in which operands of ``dtypes`` (at least one) are combined.

    >>> promote([int64, float16]), promote([uint8, int8])
    (staticflow.float16, staticflow.int16)
    """
    result: DType | None = None
    for dtype in dtypes:
        result = dtype if result is None else _promote_two(result, dtype)
    if result is None:
        raise DTypeError("promote needs at least one dtype")
    return result


def weak_dtype(scalar: bool | int | float, strong: DType | None) -> DType:
    """The dtype that a Python scalar takes beside operands of dtype ``strong`` (None: alone).

    >>> weak_dtype(2, float32), weak_dtype(2.5, int64), weak_dtype(True, uint8)
    (staticflow.float32, staticflow.float32, staticflow.uint8)
    """
    own = BY_PYTHON[type(scalar)]
    if strong is None or own.category > strong.category:
        return own
    return strong
