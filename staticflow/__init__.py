"""One set of tensor operations, run define-then-run as native code or define-by-run with a tape.

>>> import staticflow as sf
>>> w = sf.ones(3, requires_grad=True)             # define-by-run
>>> (w * w).sum().backward()
>>> w.grad
tensor([2., 2., 2.])
>>> x = sf.placeholder((None, 3), name="x")         # define-then-run
>>> f = sf.compile([x], (x * w).sum(dim=1))
>>> f(sf.ones(2, 3))
tensor([3., 3.])
"""

from staticflow.tools import interrupts as _interrupts

_interrupts.leave_at_interrupt()  # before the rest is imported

import sys as _sys
from math import e, inf, nan, pi
from typing import TYPE_CHECKING

from staticflow.graph import collector as _collector

with _collector.without_collection():  # hardly anything of what is imported is garbage
    from staticflow import linalg, special
    from staticflow.static.compile import compile
    from staticflow.static.jit import jit

    _collector.take_for_old()

from staticflow.eager import accelerator, cuda
from staticflow.eager.autocast import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)
from staticflow.eager.creation import (
    as_tensor,
    asarray,
    empty,
    from_dlpack,
    from_numpy,
    full,
    ones,
    scalar_tensor,
    tensor,
    zeros,
)
from staticflow.eager.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from staticflow.eager.inference import (
    inference_mode,
    is_inference,
    is_inference_mode_enabled,
)
from staticflow.eager.legacy import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from staticflow.eager.printing import get_printoptions, printoptions, set_printoptions
from staticflow.eager.random import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from staticflow.eager.ranges import (
    arange,
    eye,
    linspace,
    logspace,
    tril_indices,
    triu_indices,
)
from staticflow.eager.tensor import Tensor
from staticflow.eager.windows import bartlett_window, blackman_window, hamming_window, hann_window
from staticflow.errors import (
    ArgumentError,
    AutogradError,
    CheckpointError,
    CompileError,
    DeviceError,
    DimRangeError,
    DTypeError,
    IndexRangeError,
    ModelError,
    NanError,
    NestingError,
    ProfileError,
    ShapeError,
    StaticflowError,
    SymbolicError,
    ThreadsError,
    UndefinedError,
)
from staticflow.graph.device import device
from staticflow.graph.dtypes import DType as dtype
from staticflow.graph.dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote,
    set_default_dtype,
    uint8,
)
from staticflow.graph.dtypes import bool_ as bool
from staticflow.graph.dtypes import float16 as half
from staticflow.graph.dtypes import float32 as float
from staticflow.graph.dtypes import float64 as double
from staticflow.graph.dtypes import int16 as short
from staticflow.graph.dtypes import int32 as int
from staticflow.graph.dtypes import int64 as long
from staticflow.ops.along.counts import bincount, histc
from staticflow.ops.along.cumulative import (
    cummax,
    cummin,
    cumprod,
    cumsum,
    diff,
    logcumsumexp,
    prod,
)
from staticflow.ops.along.differences import gradient
from staticflow.ops.along.extremes import amax, amin, aminmax, argmax, argmin, max, min
from staticflow.ops.along.order import argsort, sort, topk
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
from staticflow.ops.declaring.foreign import refuses_foreign_in
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
from staticflow.ops.matrices.einsum import einsum
from staticflow.ops.matrices.factors import qr_by_some as qr
from staticflow.ops.matrices.factors import svd_by_columns as svd
from staticflow.ops.matrices.least_squares import pinverse
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
from staticflow.ops.matrices.solving import cholesky, det, logdet, matrix_power, slogdet
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
from staticflow.pytree import register_dataclass, register_pytree_node
from staticflow.runtime.threads import get_num_threads, set_num_threads
from staticflow.serialization import load, save
from staticflow.static.grad import grad
from staticflow.static.inputs import constant, placeholder, symbol, variable

if TYPE_CHECKING:
    from staticflow import (
        amp,
        autograd,
        distributions,
        func,
        nn,
        onnx,
        optim,
        testing,
        torch,
        utils,
    )
    from staticflow.autograd.vmap import vmap
    from staticflow.comparison import compare
    from staticflow.drawing.draw import draw
    from staticflow.profiling import profile
    from staticflow.static.saved_program import load_program
else:
    from staticflow.graph.later import names_of_later

    __getattr__, __dir__ = names_of_later(
        globals(),
        amp="amp", autograd="autograd", distributions="distributions", func="func", nn="nn",
        onnx="onnx", optim="optim", testing="testing", torch="torch", utils="utils",
        compare="comparison", draw="drawing.draw", load_program="static.saved_program",
        profile="profiling", vmap="autograd.vmap",
    )  # fmt: skip

Size = tuple  # type: ignore[type-arg]
"""The shape of a tensor is a plain tuple: bare, since it serves ``isinstance`` and annotations."""

if _sys.modules.get("einops") is not None:  # it knows tensors from now on, and nobody pays else
    from staticflow import einops

__all__ = [
    "ArgumentError", "AutogradError", "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor",
    "CheckpointError", "CompileError", "DTypeError", "DeviceError", "DimRangeError", "DoubleTensor",
    "FloatTensor", "Generator", "HalfTensor", "IndexRangeError", "IntTensor", "LongTensor",
    "ModelError", "NanError", "NestingError", "ProfileError", "ShapeError", "ShortTensor", "Size",
    "StaticflowError", "SymbolicError", "Tensor", "ThreadsError", "UndefinedError", "abs",
    "absolute", "accelerator", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm",
    "addmv", "addr", "adjoint", "all", "allclose", "amax", "amin", "aminmax", "amp", "any",
    "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax",
    "argmin", "argsort", "argwhere", "as_strided", "as_tensor", "asarray", "asin", "asinh",
    "associative_scan", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d",
    "autocast", "autograd", "baddbmm", "bartlett_window", "bernoulli", "bfloat16", "bincount",
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "blackman_window", "block_diag", "bmm", "bool", "bool_", "broadcast_shapes",
    "broadcast_tensors", "broadcast_to", "bucketize", "can_cast", "cartesian_prod", "cast", "cat",
    "cdist", "ceil", "celu", "chain_matmul", "cholesky", "cholesky_solve", "chunk", "clamp",
    "clamp_max", "clamp_min", "clear_autocast_cache", "clip", "clone", "column_stack",
    "combinations", "compare", "compile", "concat", "concatenate", "cond", "constant", "copysign",
    "corrcoef", "cos", "cosh", "cosine_similarity", "count_nonzero", "cov", "cross", "cuda",
    "cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "default_generator", "deg2rad",
    "det", "detach", "device", "diag", "diag_embed", "diagflat", "diagonal", "diagonal_scatter",
    "diff", "digamma", "dist", "distributions", "div", "divide", "dot", "double", "draw", "dropout",
    "dsplit", "dstack", "dtype", "e", "einsum", "embedding", "empty", "empty_like", "enable_grad",
    "eq", "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expand", "expm1", "eye", "finfo", "fix",
    "flatten", "flip", "fliplr", "flipud", "float", "float16", "float32", "float64", "float_power",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "fori_loop", "fork_rng", "frac", "frexp",
    "from_dlpack", "from_numpy", "full", "full_like", "func", "gather", "gcd", "ge", "ger",
    "get_autocast_dtype", "get_default_dtype", "get_num_threads", "get_printoptions",
    "get_rng_state", "grad", "gradient", "greater", "greater_equal", "gt", "half", "hamming_window",
    "hann_window", "heaviside", "histc", "hsplit", "hstack", "hypot", "i0", "iinfo", "index_add",
    "index_copy", "index_fill", "index_put", "index_reduce", "index_select", "inf",
    "inference_mode", "initial_seed", "inner", "int", "int8", "int16", "int32", "int64", "inverse",
    "is_autocast_cache_enabled", "is_autocast_enabled", "is_complex", "is_floating_point",
    "is_grad_enabled", "is_inference", "is_inference_mode_enabled", "is_nonzero", "is_same_size",
    "is_signed", "is_tensor", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf",
    "isposinf", "isreal", "jit", "kron", "kthvalue", "lcm", "ldexp", "le", "lerp", "less",
    "less_equal", "lgamma", "linalg", "linspace", "load", "load_program", "log", "log1p", "log2",
    "log10", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logdet", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "logspace", "logsumexp", "long", "lt",
    "manual_seed", "map", "masked_fill", "masked_scatter", "masked_select", "matmul",
    "matrix_power", "max", "maximum", "mean", "median", "meshgrid", "min", "minimum", "mm", "mode",
    "moveaxis", "movedim", "msort", "mul", "multi_dot", "multinomial", "multiply", "mv", "mvlgamma",
    "nan", "nan_to_num", "nanmean", "nanmedian", "nanquantile", "nansum", "narrow", "narrow_copy",
    "ne", "neg", "negative", "nextafter", "nn", "no_grad", "nonzero", "norm", "normal", "not_equal",
    "numel", "one_hot", "ones", "ones_like", "onnx", "optim", "outer", "pairwise_distance", "pdist",
    "permute", "pi", "pinverse", "placeholder", "polygamma", "positive", "pow", "print",
    "printoptions", "prod", "profile", "promote", "promote_types", "put", "qr", "quantile",
    "rad2deg", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
    "ravel", "reciprocal", "register_dataclass", "register_pytree_node", "relu", "remainder",
    "renorm", "repeat_interleave", "reshape", "result_type", "roll", "rot90", "round", "rsqrt",
    "rsub", "save", "scalar_tensor", "scan", "scatter", "scatter_add", "scatter_reduce",
    "searchsorted", "seed", "select", "select_scatter", "selu", "set_default_dtype",
    "set_grad_enabled", "set_num_threads", "set_printoptions", "set_rng_state", "sgn", "short",
    "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "slice_scatter", "slogdet", "softmax",
    "sort", "special", "split", "split_with_sizes", "sqrt", "square", "squeeze", "stack", "std",
    "std_mean", "sub", "subtract", "sum", "svd", "swapaxes", "swapdims", "switch", "symbol", "t",
    "take", "take_along_dim", "tan", "tanh", "tensor", "tensor_split", "tensordot", "testing",
    "threshold", "tile", "topk", "trace", "transpose", "trapezoid", "trapz", "tril", "tril_indices",
    "triu", "triu_indices", "true_divide", "trunc", "uint8", "unbind", "unflatten", "unique",
    "unique_consecutive", "unsqueeze", "utils", "vander", "var", "var_mean", "variable", "vdot",
    "vector_norm", "vmap", "vsplit", "vstack", "where", "while_loop", "xlogy", "zeros",
    "zeros_like",
]  # fmt: skip

__version__ = "0.1.0"

refuses_foreign_in(globals())
