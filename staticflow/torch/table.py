"""The meaning of each operation of ATen that has one here, and why others have none."""

from __future__ import annotations

from staticflow.torch.rows.along import ALONG
from staticflow.torch.rows.creation import CREATION
from staticflow.torch.rows.elementwise import ELEMENTWISE
from staticflow.torch.rows.factors import FACTORS
from staticflow.torch.rows.gradients import GRADIENTS
from staticflow.torch.rows.indexing import INDEXING
from staticflow.torch.rows.matrices import MATRICES
from staticflow.torch.rows.normalization import NORMALIZATION
from staticflow.torch.rows.row import Rows
from staticflow.torch.rows.views import VIEWS
from staticflow.torch.rows.windows import WINDOWS

__all__ = ["IGNORED", "KEPT", "REASONS", "ROWS", "why_refused"]

ROWS: Rows = {
    **ELEMENTWISE, **VIEWS, **ALONG, **INDEXING, **MATRICES, **FACTORS, **WINDOWS,
    **NORMALIZATION, **CREATION, **GRADIENTS,
}  # fmt: skip
"""The function of each overload."""

KEPT = ("linear", "scaled_dot_product_attention")
"""Operations that `torch.export` is told not to decompose, since there is one here for each."""

IGNORED = frozenset(
    {
        "aten._assert_async.msg", "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default", "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default", "aten._linalg_check_errors.default",
    }
)  # fmt: skip
"""What computes nothing, and checks what types here check, or a call does."""

_COMPLEX = "there are no complex tensors"
_STRIDES = "a graph knows no strides"
_WRITES = "it writes into an argument, and exported programs have its functional form"
REASONS = {
    "aten._fft_c2r.default": _COMPLEX,
    "aten._fft_r2c.default": _COMPLEX,
    "aten._local_scalar_dense.default": "a number of Python that only the run can tell",
    "aten._native_batch_norm_legit.default": _WRITES,
    "aten.as_strided.default": _STRIDES,
    "aten.atan2.out": _WRITES,
    "aten.resize_.default": _WRITES,
    "aten.sym_is_contiguous.default": _STRIDES,
    "aten.sym_storage_offset.default": _STRIDES,
    "aten.sym_stride.int": _STRIDES,
}
"""Why operations of core ATen have no row."""


def why_refused(name: str) -> str:
    """Why the overload ``name`` has no row."""
    return REASONS.get(name, "nobody has written its row yet")
