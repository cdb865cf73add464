"""The rule of each op: what its declaration says, unless it has one here."""

from __future__ import annotations

from staticflow.graph.op import Op
from staticflow.ops.along.class_losses import class_op
from staticflow.ops.along.collectives import (
    all_gather_op,
    all_reduce_op,
    all_to_all_op,
    broadcast_op,
    exchange_op,
    reduce_scatter_op,
)
from staticflow.ops.along.cumulative import (
    cummax_op,
    cummin_op,
    cumprod_op,
    cumsum_op,
    logcumsumexp_op,
)
from staticflow.ops.along.extremes import (
    argmax_across_op,
    argmax_op,
    argmin_across_op,
    argmin_op,
    max_dim_across_op,
    max_dim_op,
    min_dim_across_op,
    min_dim_op,
)
from staticflow.ops.along.multiplication import others_op, prod_op
from staticflow.ops.along.order import few_op, select_op, sort_op, topk_op
from staticflow.ops.along.ranks import kthvalue_op, median_dim_op, rank_op
from staticflow.ops.along.recurrence import recurrence_op, shift_op
from staticflow.ops.along.softmax import log_softmax_op, logsumexp_op, softmax_op
from staticflow.ops.along.sorted_search import search_op
from staticflow.ops.basics.axes import permute_op, t_op
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.joining import cat_op, repeat_op, stack_op
from staticflow.ops.basics.reduce import count_op, mean_op, nansum_op
from staticflow.ops.basics.slicing import embed_op, slice_scatter_op
from staticflow.ops.batching.custom import custom_rule, watch_rule
from staticflow.ops.batching.draws import draw
from staticflow.ops.batching.general import (
    align,
    as_it_is,
    expand_rule,
    fill_rule,
    permute_rule,
    product_of_elements,
    repeat_rule,
    transpose_rule,
    whole,
    write_out,
)
from staticflow.ops.batching.indexing import (
    asserted_rule,
    embedding_rule,
    masked_scatter_rule,
    masked_take_rule,
    pick_rule,
    prefix_rule,
    put_rule,
    repeated_index_rule,
    search_rule,
    strided_rule,
)
from staticflow.ops.batching.loops import DRAWS, cond_rule, scan_rule, while_rule
from staticflow.ops.batching.matrices import attention_rule, linear_rule, product_rule
from staticflow.ops.batching.row import Rule
from staticflow.ops.batching.windows import convolution_rule, kernel_rule, planes, resample_rule
from staticflow.ops.declaring.late import prefix_op, tied_op, unprefix_op
from staticflow.ops.declaring.lowering import Elementwise, Reduce, View
from staticflow.ops.declaring.required import asserted_op, required_op
from staticflow.ops.indexing.gather_ops import gather_op, scatter_add_op
from staticflow.ops.indexing.index_ops import (
    embedding_op,
    index_add_op,
    index_copy_op,
    index_op,
    index_put_op,
    index_select_op,
    take_op,
)
from staticflow.ops.indexing.mask_ops import masked_fill_op, masked_scatter_op, masked_take_op
from staticflow.ops.indexing.memory_views import as_strided_op
from staticflow.ops.indexing.roll_repeat import repeated_index_op, roll_op
from staticflow.ops.indexing.scatter_ops import scatter_op, scatter_reduce_op
from staticflow.ops.loops.budget import budget_op
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.custom import custom_op, once_op
from staticflow.ops.loops.loop import scan_op, while_op
from staticflow.ops.matrices.attention import attend_back_op, attend_op
from staticflow.ops.matrices.contract import linear_op, matmul_op
from staticflow.ops.matrices.determinants import slogdet_op
from staticflow.ops.matrices.exponential import matrix_exp_op
from staticflow.ops.matrices.factors import eigh_op, eigvalsh_op, qr_op, svd_op, svdvals_op
from staticflow.ops.matrices.lu import lu_op, row_order_op
from staticflow.ops.matrices.solving import (
    cholesky_op,
    lower_op,
    solve_op,
    upper_op,
)
from staticflow.ops.matrices.tall_systems import least_squares_op
from staticflow.ops.matrices.triangle import (
    diag_embed_op,
    fold_op,
    tril_op,
    triu_op,
)
from staticflow.ops.statistics.moments import std_op, var_op, vector_norm_op
from staticflow.ops.symbols.watching import watch_op
from staticflow.ops.windows.average_pool import (
    adaptive_avg_pool_op,
    adaptive_spread_op,
    avg_pool_op,
)
from staticflow.ops.windows.border import border_op, unborder_op
from staticflow.ops.windows.convolution import (
    convolution_kernel_op,
    convolution_op,
    convolution_transpose_op,
)
from staticflow.ops.windows.correlate import correlate_kernel_op, correlate_op, interleave_op
from staticflow.ops.windows.patches import patches_op, unpatches_op
from staticflow.ops.windows.pooling import (
    adaptive_max_index_op,
    max_pool_index_op,
    max_pool_op,
    place_gather_op,
    place_scatter_op,
)
from staticflow.ops.windows.resample import resample_op, unresample_op

__all__ = ["BRANCHES", "rule_of"]

BRANCHES: dict[Op, Rule] = {scan_op: scan_rule, while_op: while_rule, cond_op: cond_rule}
"""Ops that hold regions, which run by functions that the rules call."""

_ALONG = (
    all_gather_op, all_to_all_op, argmax_across_op, argmax_op, argmin_across_op, argmin_op, cat_op,
    count_op, cummax_op, cummin_op, cumprod_op, cumsum_op, diag_embed_op, embed_op, few_op, fold_op,
    gather_op, kthvalue_op, log_softmax_op, logcumsumexp_op, logsumexp_op, max_dim_across_op,
    max_dim_op, mean_op, median_dim_op, min_dim_across_op, min_dim_op, nansum_op, others_op,
    rank_op, recurrence_op, reduce_scatter_op, roll_op, scatter_add_op, scatter_op,
    scatter_reduce_op, select_op, shift_op, slice_scatter_op, softmax_op, sort_op, stack_op, std_op,
    topk_op, var_op, vector_norm_op,
)  # fmt: skip
"""Ops on dims that attributes name or have entries for, as views and reductions are without being
here."""

_IN_FRONT = (
    all_reduce_op, border_op, broadcast_op, budget_op, cholesky_op, class_op, eigh_op, eigvalsh_op,
    exchange_op, least_squares_op, lower_op, lu_op, matrix_exp_op, once_op, qr_op, required_op,
    row_order_op, slogdet_op, solve_op, svd_op, svdvals_op, tril_op, triu_op, unborder_op, upper_op,
)  # fmt: skip
"""Ops that take any number of dims in front."""

_PLANES = (
    adaptive_avg_pool_op, adaptive_max_index_op, adaptive_spread_op, avg_pool_op, interleave_op,
    max_pool_index_op, max_pool_op, patches_op, place_gather_op, place_scatter_op, unpatches_op,
)  # fmt: skip
"""Ops on images (N, C, ...), each by itself."""

_RULES: dict[Op, Rule] = {
    **dict.fromkeys(_ALONG, whole),
    **dict.fromkeys(_IN_FRONT, as_it_is),
    **dict.fromkeys(_PLANES, planes),
    **dict.fromkeys(DRAWS, draw),
    **dict.fromkeys((index_op, index_select_op, take_op), pick_rule),
    **dict.fromkeys((index_put_op, index_add_op, index_copy_op), put_rule),
    **dict.fromkeys((convolution_op, convolution_transpose_op, correlate_op), convolution_rule),
    **dict.fromkeys((resample_op, unresample_op), resample_rule),
    **BRANCHES,
    as_strided_op: strided_rule,
    asserted_op: asserted_rule,
    attend_back_op: attention_rule(7),
    attend_op: attention_rule(3),
    convolution_kernel_op: kernel_rule,
    correlate_kernel_op: kernel_rule,
    custom_op: custom_rule,
    embedding_op: embedding_rule,
    expand_op: expand_rule,
    linear_op: linear_rule,
    masked_fill_op: fill_rule,
    masked_scatter_op: masked_scatter_rule,
    masked_take_op: masked_take_rule,
    matmul_op: product_rule,
    permute_op: permute_rule,
    prod_op: product_of_elements,
    repeat_op: repeat_rule,
    repeated_index_op: repeated_index_rule,
    search_op: search_rule,
    t_op: transpose_rule,
    prefix_op: prefix_rule,
    tied_op: lambda row: row.whole(0),
    unprefix_op: prefix_rule,
    watch_op: watch_rule,
}


def rule_of(op: Op) -> Rule | None:
    """The rule of an op; None where it has none."""
    if op in _RULES:
        return _RULES[op]
    if isinstance(op.lowering, Elementwise):
        return align
    if isinstance(op.lowering, Reduce | View):
        return whole
    return None if op.decompose is None else write_out
