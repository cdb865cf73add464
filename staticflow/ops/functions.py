"""The functions of tensors and symbols alike, by PyTorch's names: what the package has of them."""

from staticflow.ops.along.counts import bincount, histc, histogram
from staticflow.ops.along.cumulative import (
    cummax,
    cummin,
    cumprod,
    cumsum,
    diff,
    logcumsumexp,
)
from staticflow.ops.along.differences import gradient
from staticflow.ops.along.extremes import amax, amin, aminmax, argmax, argmin, max, min
from staticflow.ops.along.multiplication import prod
from staticflow.ops.along.order import argsort, sort, topk
from staticflow.ops.along.places import nonzero_static, unravel_index
from staticflow.ops.along.ranks import kthvalue, median, nanmedian
from staticflow.ops.along.sets import isin, unique, unique_consecutive
from staticflow.ops.along.softmax import log_softmax, logsumexp, softmax
from staticflow.ops.along.sorted_search import bucketize, searchsorted
from staticflow.ops.basics.arithmetic import (
    clamp,
    clone,
    eq,
    floor_divide,
    ge,
    gt,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    remainder,
)
from staticflow.ops.basics.axes import (
    adjoint,
    flip,
    fliplr,
    flipud,
    moveaxis,
    movedim,
    permute,
    rot90,
    swapaxes,
    swapdims,
    t,
    transpose,
)
from staticflow.ops.basics.casting import cast, is_complex, is_floating_point, is_signed
from staticflow.ops.basics.creation import empty_like, full_like, ones_like, zeros_like
from staticflow.ops.basics.expand import broadcast_tensors, broadcast_to, expand
from staticflow.ops.basics.joining import (
    cat,
    column_stack,
    concat,
    concatenate,
    dstack,
    hstack,
    meshgrid,
    stack,
    tile,
    vstack,
)
from staticflow.ops.basics.reduce import all, any, count_nonzero, mean, nanmean, nansum, sum
from staticflow.ops.basics.slicing import select_scatter, slice_scatter
from staticflow.ops.basics.splitting import (
    chunk,
    dsplit,
    hsplit,
    narrow,
    split,
    tensor_split,
    unbind,
    vsplit,
)
from staticflow.ops.basics.view import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    flatten,
    ravel,
    reshape,
    squeeze,
    unflatten,
    unsqueeze,
)
from staticflow.ops.elementwise.activation import (
    celu,
    selu,
    threshold,
)
from staticflow.ops.elementwise.bessel import i0
from staticflow.ops.elementwise.bits import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from staticflow.ops.elementwise.compare import (
    allclose,
    equal,
    isclose,
    isneginf,
    isposinf,
    nan_to_num,
    signbit,
)
from staticflow.ops.elementwise.fake_quantize import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from staticflow.ops.elementwise.floats import frexp, nextafter
from staticflow.ops.elementwise.gamma import digamma, lgamma, mvlgamma, polygamma
from staticflow.ops.elementwise.maths import (
    abs,
    ceil,
    exp,
    exp2,
    expm1,
    floor,
    frac,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    pow,
    reciprocal,
    relu,
    rsqrt,
    sigmoid,
    sign,
    sqrt,
    square,
    trunc,
)
from staticflow.ops.elementwise.pairs import (
    addcdiv,
    addcmul,
    copysign,
    float_power,
    fmax,
    fmin,
    fmod,
    gcd,
    heaviside,
    hypot,
    lcm,
    lerp,
    logaddexp,
    logaddexp2,
    logit,
    xlogy,
)
from staticflow.ops.elementwise.special import erf, erfc, erfinv, sinc
from staticflow.ops.elementwise.synonyms import (
    absolute,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    clip,
    divide,
    fix,
    greater,
    greater_equal,
    less,
    less_equal,
    multiply,
    negative,
    not_equal,
    sgn,
    subtract,
    true_divide,
)
from staticflow.ops.elementwise.trig import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    deg2rad,
    rad2deg,
    sin,
    sinh,
    tan,
    tanh,
)
from staticflow.ops.elementwise.variants import add, div, round, rsub, sub
from staticflow.ops.indexing.data_dependent import argwhere, masked_select, nonzero, where
from staticflow.ops.indexing.gather_ops import gather, scatter_add, take_along_dim
from staticflow.ops.indexing.index_functions import (
    embedding,
    index_add,
    index_copy,
    index_fill,
    index_select,
    take,
)
from staticflow.ops.indexing.mask_ops import masked_fill, masked_scatter
from staticflow.ops.indexing.mask_put import index_put
from staticflow.ops.indexing.memory_views import as_strided
from staticflow.ops.indexing.roll_repeat import repeat_interleave, roll
from staticflow.ops.indexing.scatter_ops import index_reduce, one_hot, put, scatter, scatter_reduce
from staticflow.ops.loops.associative import associative_scan
from staticflow.ops.loops.cond import cond
from staticflow.ops.loops.printing import print
from staticflow.ops.loops.scan import map, scan
from staticflow.ops.loops.switch import switch
from staticflow.ops.loops.while_loop import fori_loop, while_loop
from staticflow.ops.matrices.contract import bmm, dot, matmul, mm
from staticflow.ops.matrices.determinants import det, logdet, slogdet
from staticflow.ops.matrices.einsum import einsum
from staticflow.ops.matrices.exponential import matrix_exp
from staticflow.ops.matrices.factors import qr_by_some as qr
from staticflow.ops.matrices.factors import svd_by_columns as svd
from staticflow.ops.matrices.lu import lu_unpack
from staticflow.ops.matrices.products import (
    addbmm,
    addmm,
    addmv,
    addr,
    baddbmm,
    chain_matmul,
    cross,
    ger,
    inner,
    kron,
    multi_dot,
    mv,
    outer,
    tensordot,
    vdot,
)
from staticflow.ops.matrices.reflections import cholesky_inverse
from staticflow.ops.matrices.singular_values import pinverse
from staticflow.ops.matrices.solving import cholesky, matrix_power
from staticflow.ops.matrices.solving import inv as inverse
from staticflow.ops.matrices.triangle import (
    diag,
    diag_embed,
    diagonal,
    diagonal_scatter,
    trace,
    tril,
    triu,
)
from staticflow.ops.matrices.triangular import cholesky_solve
from staticflow.ops.random.dropout import dropout
from staticflow.ops.random.low_rank import pca_lowrank, svd_lowrank
from staticflow.ops.random.sampling import (
    bernoulli,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from staticflow.ops.statistics.distances import (
    cdist,
    cosine_similarity,
    dist,
    pairwise_distance,
    pdist,
)
from staticflow.ops.statistics.moments import norm, std, std_mean, var, var_mean, vector_norm
from staticflow.ops.statistics.samples import corrcoef, cov, mode, nanquantile, quantile
from staticflow.ops.tensors.queries import (
    broadcast_shapes,
    can_cast,
    finfo,
    iinfo,
    is_nonzero,
    is_same_size,
    is_tensor,
    numel,
    promote_types,
    result_type,
)
from staticflow.ops.tensors.shortcuts import (
    block_diag,
    cartesian_prod,
    clamp_max,
    clamp_min,
    combinations,
    cumulative_trapezoid,
    detach,
    diagflat,
    isreal,
    ldexp,
    msort,
    narrow_copy,
    positive,
    renorm,
    split_with_sizes,
    trapezoid,
    trapz,
    vander,
)
from staticflow.ops.tensors.subscript import select

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv",
    "addr", "adjoint", "all", "allclose", "amax", "amin", "aminmax", "any", "arccos", "arccosh",
    "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort", "argwhere",
    "as_strided", "asin", "asinh", "associative_scan", "atan", "atan2", "atanh", "atleast_1d",
    "atleast_2d", "atleast_3d", "baddbmm", "bernoulli", "bincount", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "block_diag", "bmm", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "bucketize",
    "can_cast", "cartesian_prod", "cast", "cat", "cdist", "ceil", "celu", "chain_matmul",
    "cholesky", "cholesky_inverse", "cholesky_solve", "chunk", "clamp", "clamp_max", "clamp_min",
    "clip", "clone", "column_stack", "combinations", "concat", "concatenate", "cond", "copysign",
    "corrcoef", "cos", "cosh", "cosine_similarity", "count_nonzero", "cov", "cross", "cummax",
    "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "deg2rad", "det", "detach", "diag",
    "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "diff", "digamma", "dist", "div",
    "divide", "dot", "dropout", "dsplit", "dstack", "einsum", "embedding", "empty_like", "eq",
    "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expand", "expm1",
    "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine", "finfo", "fix",
    "flatten", "flip", "fliplr", "flipud", "float_power", "floor", "floor_divide", "fmax", "fmin",
    "fmod", "fori_loop", "frac", "frexp", "full_like", "gather", "gcd", "ge", "ger", "gradient",
    "greater", "greater_equal", "gt", "heaviside", "histc", "histogram", "hsplit", "hstack",
    "hypot", "i0", "iinfo", "index_add", "index_copy", "index_fill", "index_put", "index_reduce",
    "index_select", "inner", "inverse", "is_complex", "is_floating_point", "is_nonzero",
    "is_same_size", "is_signed", "is_tensor", "isclose", "isfinite", "isin", "isinf", "isnan",
    "isneginf", "isposinf", "isreal", "kron", "kthvalue", "lcm", "ldexp", "le", "lerp", "less",
    "less_equal", "lgamma", "log", "log1p", "log2", "log10", "log_softmax", "logaddexp",
    "logaddexp2", "logcumsumexp", "logdet", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logit", "logsumexp", "lt", "lu_unpack", "map", "masked_fill", "masked_scatter",
    "masked_select", "matmul", "matrix_exp", "matrix_power", "max", "maximum", "mean", "median",
    "meshgrid", "min", "minimum", "mm", "mode", "moveaxis", "movedim", "msort", "mul", "multi_dot",
    "multinomial", "multiply", "mv", "mvlgamma", "nan_to_num", "nanmean", "nanmedian",
    "nanquantile", "nansum", "narrow", "narrow_copy", "ne", "neg", "negative", "nextafter",
    "nonzero", "nonzero_static", "norm", "normal", "not_equal", "numel", "one_hot", "ones_like",
    "outer", "pairwise_distance", "pca_lowrank", "pdist", "permute", "pinverse", "polygamma",
    "positive", "pow", "print", "prod", "promote_types", "put", "qr", "quantile", "rad2deg", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "ravel",
    "reciprocal", "relu", "remainder", "renorm", "repeat_interleave", "reshape", "result_type",
    "roll", "rot90", "round", "rsqrt", "rsub", "scan", "scatter", "scatter_add", "scatter_reduce",
    "searchsorted", "select", "select_scatter", "selu", "sgn", "sigmoid", "sign", "signbit", "sin",
    "sinc", "sinh", "slice_scatter", "slogdet", "softmax", "sort", "split", "split_with_sizes",
    "sqrt", "square", "squeeze", "stack", "std", "std_mean", "sub", "subtract", "sum", "svd",
    "svd_lowrank", "swapaxes", "swapdims", "switch", "t", "take", "take_along_dim", "tan", "tanh",
    "tensor_split", "tensordot", "threshold", "tile", "topk", "trace", "transpose", "trapezoid",
    "trapz", "tril", "triu", "true_divide", "trunc", "unbind", "unflatten", "unique",
    "unique_consecutive", "unravel_index", "unsqueeze", "vander", "var", "var_mean", "vdot",
    "vector_norm", "vsplit", "vstack", "where", "while_loop", "xlogy", "zeros_like",
]  # fmt: skip
