"""Products of matrices, attention and distances."""

from __future__ import annotations

from typing import Any

from staticflow.nn.functional.attention import scaled_dot_product_attention
from staticflow.ops.basics.reduce import sum
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.matrices.contract import bmm, dot, linear, mm
from staticflow.ops.matrices.products import addbmm, addmm, addmv, baddbmm, mv
from staticflow.ops.statistics.distances import cdist, dist, pdist
from staticflow.torch.rows.row import Rows, scalar_for

__all__ = ["MATRICES"]


def _addmm(x: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return addmm(x, mat1, mat2, beta=scalar_for(x, beta), alpha=scalar_for(x, alpha))


def _baddbmm(x: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return baddbmm(x, batch1, batch2, beta=scalar_for(x, beta), alpha=scalar_for(x, alpha))


def _addmv(x: Any, mat: Any, vec: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return addmv(x, mat, vec, beta=scalar_for(x, beta), alpha=scalar_for(x, alpha))


def _addbmm(x: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return addbmm(x, batch1, batch2, beta=scalar_for(x, beta), alpha=scalar_for(x, alpha))


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    return scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )


def _trilinear(
    a: Any, b: Any, c: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any,
    unroll_dim: int = 1,
) -> Any:  # fmt: skip
    """The sum over ``sumdim`` of a product, whose factors lack the dims of the lists."""
    for dims, at in ((expand1, 0), (expand2, 1), (expand3, 2)):
        for dim in sorted(dims):
            a, b, c = (unsqueeze(v, dim) if i == at else v for i, v in enumerate((a, b, c)))
    return sum(a * b * c, tuple(sumdim))


MATRICES: Rows = {
    "aten.mm.default": mm,
    "aten.bmm.default": bmm,
    "aten.mv.default": mv,
    "aten.dot.default": dot,
    "aten.addmm.default": _addmm,
    "aten.baddbmm.default": _baddbmm,
    "aten.addmv.default": _addmv,
    "aten.addbmm.default": _addbmm,
    "aten.dist.default": dist,
    "aten._trilinear.default": _trilinear,
    "aten.linear.default": linear,
    "aten.scaled_dot_product_attention.default": _attention,
    "aten._cdist_forward.default": lambda x1, x2, p, compute_mode: cdist(x1, x2, p),
    "aten._pdist_forward.default": pdist,
}
"""Rows of products."""
