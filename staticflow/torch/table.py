"""The meaning of each operation of ATen that has one here, and why others have none."""

from __future__ import annotations

from staticflow.torch.rows.along import ALONG
from staticflow.torch.rows.attention import ATTENTION
from staticflow.torch.rows.creation import CREATION
from staticflow.torch.rows.elementwise import ELEMENTWISE
from staticflow.torch.rows.factors import BY_MEMORY, FACTORS
from staticflow.torch.rows.gradients import GRADIENTS
from staticflow.torch.rows.indexing import INDEXING
from staticflow.torch.rows.lists import LISTS
from staticflow.torch.rows.matrices import MATRICES
from staticflow.torch.rows.normalization import NORMALIZATION
from staticflow.torch.rows.row import Rows
from staticflow.torch.rows.views import VIEWS
from staticflow.torch.rows.windows import WINDOWS

__all__ = ["BY_MEMORY", "IGNORED", "KEPT", "REASONS", "ROWS", "why_refused"]

ROWS: Rows = {
    **ELEMENTWISE, **VIEWS, **ALONG, **INDEXING, **MATRICES, **ATTENTION, **FACTORS, **WINDOWS,
    **NORMALIZATION, **CREATION, **GRADIENTS, **LISTS,
}  # fmt: skip
"""The function of each overload."""

KEPT = ("detach", "linear", "scaled_dot_product_attention")
"""Operations that `torch.export` is told not to decompose, since there is one here for each, or, as
of ``detach``, since what it is decomposed to would have a gradient."""

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
_CHUNKED = "it is written for its own derivative; chunk the rows in the module"
_LDL = "factors L and D of symmetric matrices are not found here"
_NO_MATHS = "there is no such function here"
_MEMORY = "it changes how large memory is"
_WRITES = "it writes into an argument, and exported programs have its functional form"
_WRITES_WEIGHT = "max_norm changes the weight while it is read"
REASONS = {
    "aten._fft_c2r.default": _COMPLEX,
    "aten._fft_r2c.default": _COMPLEX,
    "aten._local_scalar_dense.default": "a number of Python that only the run can tell",
    "aten._native_batch_norm_legit.default": _WRITES,
    "aten._fft_c2c.default": _COMPLEX,
    "aten._conj.default": _COMPLEX,
    "aten.view_as_real.default": _COMPLEX,
    "aten.as_strided.default": _STRIDES,
    "aten.as_strided_copy.default": _STRIDES,
    "aten.as_strided_scatter.default": _STRIDES,
    "prims.copy_strided.default": _STRIDES,
    **{
        f"aten.{name}.default": _LDL
        for name in (
            "linalg_ldl_factor_ex",
            "linalg_ldl_solve",
        )
    },
    **{
        f"aten.{name}.default": _NO_MATHS
        for name in (
            "igamma",
            "igammac",
            "geqrf",
            "hash_tensor",
            "grid_sampler_3d",
            "_upsample_bilinear2d_aa",
            "_histogramdd_bin_edges",
            "_histogramdd_from_bin_cts",
        )
    },
    "aten.embedding_renorm.default": _WRITES_WEIGHT,
    "torch_nn._linear_cross_entropy_batch_chunked.default": _CHUNKED,
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default": _CHUNKED,
    "aten.resize.default": _MEMORY,
    "aten.atan2.out": _WRITES,
    "aten.resize_.default": _WRITES,
    "aten.sym_is_contiguous.default": _STRIDES,
    "aten.sym_storage_offset.default": _STRIDES,
    "aten.sym_stride.int": _STRIDES,
}
"""Why operations of core ATen have no row."""


def why_refused(name: str) -> str:
    """Why the overload ``name`` has no row."""
    if name.startswith("aten.special_"):
        return _NO_MATHS
    return REASONS.get(name, "nobody has written its row yet")
