"""A stand-in for the library cuBLASLt, which multiplies matrices that lie by columns on the host."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
from emulated_device import ACTIVATIONS, as_tf32
from fake_cublas import DTYPES, INVALID_VALUE, matrix_at

__all__ = ["FakeCublasLt"]

_NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED

_ATTRIBUTES = {
    "MatmulDesc": {3: ctypes.c_int32, 4: ctypes.c_int32, 7: ctypes.c_uint32, 8: ctypes.c_void_p},
    "MatrixLayout": {5: ctypes.c_int32, 6: ctypes.c_int64},
    "MatmulPreference": {1: ctypes.c_uint64, 3: ctypes.c_uint32, 5: ctypes.c_uint32,
                         6: ctypes.c_uint32, 7: ctypes.c_uint32, 8: ctypes.c_uint32},
}  # fmt: skip
"""The attributes that are known here, and of which type the documentation says that they are."""

_TRANSA, _TRANSB, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8
_COUNT, _STEP = 5, 6
_EPILOGUES = {1: "", 2: "relu", 32: "gelu", 4: "", 6: "relu", 36: "gelu"}


class FakeCublasLt:
    """The functions by their names. Algorithms are asked for as ``asked`` says, and there are none
    unless it ``has_algorithms``; ``products`` counts what was multiplied."""

    def __init__(self) -> None:
        self.objects: dict[int, tuple[str, tuple[Any, ...], dict[int, Any]]] = {}
        self.has_algorithms = True
        self.asked: list[dict[int, Any]] = []
        self.products = 0
        self._numbers = itertools.count(100)

    def cublasLtCreate(self, handle: Any) -> int:
        handle._obj.value = 12
        return 0

    def __getattr__(self, name: str) -> Any:
        what = name.removeprefix("cublasLt")
        for end, do in (("SetAttribute", self._set), ("Create", self._create), ("Destroy", self._destroy)):  # fmt: skip
            if what.removesuffix(end) in _ATTRIBUTES:
                return lambda *given: do(what.removesuffix(end), *given)
        raise AttributeError(name)

    def _create(self, what: str, made: Any, *arguments: Any) -> int:
        made._obj.value = next(self._numbers)
        types = tuple(type(a) for a in arguments)
        wanted = {
            "MatmulDesc": (int, int),
            "MatrixLayout": (int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64),
            "MatmulPreference": (),
        }
        assert types == wanted[what]
        self.objects[made._obj.value] = what, tuple(getattr(a, "value", a) for a in arguments), {}
        return 0

    def _destroy(self, what: str, of: Any) -> int:
        assert self.objects.pop(of.value)[0] == what
        return 0

    def _set(self, what: str, of: Any, attribute: int, value: Any, size: Any) -> int:
        kind, _, attributes = self.objects[of.value]
        assert kind == what and type(value._obj) is _ATTRIBUTES[what][attribute]
        assert size.value == ctypes.sizeof(value._obj)
        attributes[attribute] = value._obj.value
        return 0

    def cublasLtMatmulAlgoGetHeuristic(
        self, handle: Any, product: Any, a: Any, b: Any, c: Any, d: Any, limits: Any, wanted: int,
        result: Any, count: Any,
    ) -> int:  # fmt: skip
        assert handle.value == 12 and wanted == 1 and ctypes.sizeof(result._obj) == 96
        assert {self.objects[x.value][0] for x in (a, b, c, d)} == {"MatrixLayout"}
        self.asked.append(self.objects[limits.value][2])
        if not self.has_algorithms:
            return _NOT_SUPPORTED
        result._obj.algorithm[0], count._obj.value = 77, 1
        return 0

    def cublasLtMatmul(
        self, handle: Any, product: Any, alpha: Any, a: Any, a_lies: Any, b: Any, b_lies: Any,
        beta: Any, c: Any, c_lies: Any, d: Any, d_lies: Any, algorithm: Any, workspace: Any,
        bytes_: Any, stream: Any,
    ) -> int:  # fmt: skip
        """``D = epilogue(alpha op(A) op(B) + beta C)``, as the documentation of cuBLASLt has it."""
        kind, (sums, scale), attributes = self.objects[product.value]
        assert kind == "MatmulDesc" and algorithm._obj[0] == 77 and c.value == d.value
        operations = attributes[_TRANSA], attributes[_TRANSB], 0
        lies = [self.objects[x.value] for x in (a_lies, b_lies, d_lies)]
        ((dtype, wanted, factor),) = {DTYPES[arguments[0]] for _, arguments, _ in lies}
        assert sums == wanted or (sums == 77 and dtype is np.float32)
        assert scale == (1 if factor is ctypes.c_double else 0)
        assert type(alpha._obj) is type(beta._obj) is factor
        assert (alpha._obj.value, beta._obj.value) == (1.0, 0.0)
        counts = {own[_COUNT] for _, _, own in lies}
        assert len(counts) == 1 and bytes_.value and stream.value
        if any(apart < max(1, rows) for _, (_, rows, _, apart), _ in lies):
            return INVALID_VALUE
        wide, epilogue = np.promote_types(np.float32, dtype), attributes[_EPILOGUE]
        for i in range(counts.pop()):
            x, y, out = (
                matrix_at(np.dtype(dtype), at.value, i * own[_STEP], (rows, columns), apart)
                for at, (_, (_, rows, columns, apart), own) in zip((a, b, d), lies, strict=True)
            )
            x, y = (
                (m.T if turned else m).astype(wide)
                for m, turned in zip((x, y), operations, strict=False)
            )
            if sums == 77:
                x, y = (as_tf32(np.ascontiguousarray(m)) for m in (x, y))
            total = x @ y
            assert total.shape == out.shape
            if epilogue & 4:
                bias = matrix_at(
                    np.dtype(dtype), attributes[_BIAS_POINTER], 0, (len(out), 1), len(out)
                )
                total = total + bias.astype(wide)
            out[...] = ACTIVATIONS[_EPILOGUES[epilogue]](total)
            self.products += 1
        return 0
