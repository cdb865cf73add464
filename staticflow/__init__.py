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

from staticflow import nn, optim
from staticflow.eager.creation import (
    Generator,
    arange,
    eye,
    from_numpy,
    full,
    linspace,
    manual_seed,
    ones,
    rand,
    randn,
    tensor,
    zeros,
)
from staticflow.eager.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from staticflow.eager.tensor import Tensor
from staticflow.errors import (
    AutogradError,
    CompileError,
    DTypeError,
    IndexRangeError,
    ShapeError,
    StaticflowError,
    SymbolicError,
)
from staticflow.graph.dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote,
    uint8,
)
from staticflow.ops.arithmetic import (
    add,
    cast,
    div,
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
    sub,
    where,
)
from staticflow.ops.contract import bmm, dot, matmul, mm
from staticflow.ops.creation import ones_like, zeros_like
from staticflow.ops.indexing import gather, scatter_add
from staticflow.ops.maths import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    pow,
    reciprocal,
    relu,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    tan,
    tanh,
    trunc,
)
from staticflow.ops.methods import clamp
from staticflow.ops.promote import result_type
from staticflow.ops.reduce import all, amax, amin, any, argmax, argmin, max, mean, min, sum
from staticflow.ops.scan import scan
from staticflow.ops.softmax import log_softmax, logsumexp, softmax
from staticflow.ops.view import (
    cat,
    expand,
    flatten,
    narrow,
    permute,
    reshape,
    squeeze,
    stack,
    t,
    transpose,
    unsqueeze,
)
from staticflow.static.compile import compile
from staticflow.static.grad import grad
from staticflow.static.inputs import constant, placeholder, variable
from staticflow.static.jit import jit

__version__ = "0.1.0"
