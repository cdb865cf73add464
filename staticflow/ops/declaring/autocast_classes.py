"""In which dtype each op and function computes inside `autocast`: PyTorch's lists for the CPU.

The names are those of ops, of functions that are marked by
`staticflow.ops.basics.autocast.by_autocast`, since the ops that they are made of would be cast for
otherwise, and of recurrent layers. A new op is put into one of the lists; a test names those that
are in none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ["CLASSES", "AutocastClass"]

AutocastClass = Literal["lower", "float32", "widest", "given"]
"""What happens to the floating operands, but for those of float64, which stay: they are cast to the
dtype of the block (``lower``), to float32, to the ``widest`` among them, or are taken as they are
``given``, of which the type rules say the rest."""

_LOWER = """
    LSTM RNN addbmm addmm baddbmm convolution convolution_transpose linear matmul prelu
    scaled_dot_product_attention vecdot
"""

_FLOAT32 = """
    _pad_first adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy
    binary_cross_entropy_with_logits cdist cholesky cholesky_solve cosine_embedding_loss
    cross_entropy ctc_loss eigh eigvalsh grid_sample hinge_embedding_loss householder_product
    huber_loss inv kl_div l1_loss lstsq margin_ranking_loss max_pool3d max_unpool2d max_unpool3d
    mse_loss multi_margin_loss multilabel_margin_loss nanquantile nll nll_loss pinverse
    poisson_nll_loss prod qr quantile smooth_l1_loss soft_margin_loss solve svd svdvals trace
    triplet_margin_loss
"""

_WIDEST = "cat index_copy stack"

_GIVEN = """
    GRU abs acos acosh adaptive_avg_pool adaptive_max_index adaptive_spread add addcdiv
    addcmul addmv addr agree all all_gather all_reduce all_to_all amax amin any argmax
    argmax_across argmin argmin_across as_strided asin asinh asserted atan atan2 atanh
    attend attend_back avg_pool batch_norm begin bilinear bitcast bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor border
    broadcast budget cast ceil clamp class_index clone cond constant contiguous
    convolution_kernel copysign correlate correlate_kernel cos cosh count cummax cummin
    cumprod cumsum custom deg2rad det diag_embed diagonal digamma div dot effect elu embed
    embedding end eq erf erfc erfcx erfinv exchange exp exp2 expand expm1 flip floor
    floor_divide fmax fmin fmod fold frac frexp frexp_exponent full gather gcd ge gelu
    gelu_tanh group_norm gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot i0
    i0e i1 i1e index index_add index_put index_select integers interleave iota isfinite
    isinf isnan item keep_history kthvalue layer_norm lcm le leaky_relu least_squares lerp lgamma
    log log10 log1p log2 log_ndtr log_softmax logaddexp logaddexp2 logcumsumexp logical_and
    logical_not logical_or logical_xor logit logsigmoid logsumexp lt lu masked_fill
    masked_scatter masked_select masked_take matrix_exp max max_dim max_dim_across max_pool
    max_pool_index maximum mean measure median median_dim min min_dim min_dim_across
    minimum mish mul multilabel_soft_margin_loss mv nan_to_num nansum ndtr ne neg
    nextafter nonzero normal of_rank once_differentiable param patches permute
    place_gather place_scatter polygamma pow prefix print product_of_others rad2deg
    random_bits read reciprocal recurrence reduce_scatter relu remainder repeat
    repeated_index required resample reshape roll round row_order rsqrt scan scatter scatter_add
    scatter_reduce searchsorted select shard shift sigmoid sign signbit silu sin sinc
    sinh size slice slice_scatter slogdet softmax softplus softshrink solve_lower
    solve_upper sort sqrt squeeze std stop_gradient sub sum supremum t take tan tanh
    threefry threshold tied top_few top_select topk transpose tril triu trunc unborder
    unfold uniform unpatches unprefix unresample unsqueeze var vdot vector_norm watch
    where while xlogy
"""

_LISTS: Mapping[AutocastClass, str] = {
    "lower": _LOWER,
    "float32": _FLOAT32,
    "widest": _WIDEST,
    "given": _GIVEN,
}

CLASSES = {name: kind for kind, names in _LISTS.items() for name in names.split()}
"""By name, what `autocast` makes of the operands."""
