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
from staticflow.eager.windows import (
    bartlett_window,
    blackman_window,
    hamming_window,
    hann_window,
    kaiser_window,
)
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
    RankError,
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
from staticflow.graph.memory_formats import contiguous_format, preserve_format
from staticflow.ops import functions as _functions
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.functions import *  # noqa: F403
from staticflow.pytree import (
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
)
from staticflow.runtime.threads import get_num_threads, set_num_threads
from staticflow.serialization import load, save
from staticflow.static.grad import grad
from staticflow.static.inputs import constant, placeholder, symbol, variable

if TYPE_CHECKING:
    from staticflow import (
        amp,
        autograd,
        backends,
        distributed,
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
    from staticflow.backends import (
        are_deterministic_algorithms_enabled,
        get_float32_matmul_precision,
        set_float32_matmul_precision,
        use_deterministic_algorithms,
    )
    from staticflow.comparison import compare
    from staticflow.drawing.draw import draw
    from staticflow.profiling import profile
    from staticflow.static.saved_program import load_program
else:
    from staticflow.graph.later import names_of_later

    __getattr__, __dir__ = names_of_later(
        globals(),
        amp="amp", autograd="autograd", distributed="distributed", distributions="distributions",
        func="func", nn="nn", onnx="onnx", optim="optim", testing="testing", torch="torch",
        utils="utils", backends="backends", compare="comparison", draw="drawing.draw",
        load_program="static.saved_program", profile="profiling", vmap="autograd.vmap",
        are_deterministic_algorithms_enabled="backends", get_float32_matmul_precision="backends",
        set_float32_matmul_precision="backends", use_deterministic_algorithms="backends",
    )  # fmt: skip

Size = tuple  # type: ignore[type-arg]
"""The shape of a tensor is a plain tuple: bare, since it serves ``isinstance`` and annotations."""

if _sys.modules.get("einops") is not None:  # it knows tensors from now on, and nobody pays else
    from staticflow import einops

__all__ = [
    "ArgumentError", "AutogradError", "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor",
    "CheckpointError", "CompileError", "DTypeError", "DeviceError", "DimRangeError", "DoubleTensor",
    "FloatTensor", "Generator", "HalfTensor", "IndexRangeError", "IntTensor", "LongTensor",
    "ModelError", "NanError", "NestingError", "ProfileError", "RankError", "ShapeError",
    "ShortTensor", "Size", "StaticflowError", "SymbolicError", "Tensor", "ThreadsError",
    "UndefinedError", "accelerator", "amp", "arange", "are_deterministic_algorithms_enabled",
    "as_tensor", "asarray", "autocast", "autograd", "backends", "bartlett_window", "bfloat16",
    "blackman_window", "bool", "bool_", "clear_autocast_cache", "compare", "compile", "constant",
    "contiguous_format", "cuda", "default_generator", "device", "distributed", "distributions",
    "double", "draw", "dtype", "e", "empty", "enable_grad", "eye", "float", "float16", "float32",
    "float64", "fork_rng", "from_dlpack", "from_numpy", "full", "func", "get_autocast_dtype",
    "get_default_dtype", "get_float32_matmul_precision", "get_num_threads", "get_printoptions",
    "get_rng_state", "grad", "half", "hamming_window", "hann_window", "inf", "inference_mode",
    "initial_seed", "int", "int8", "int16", "int32", "int64", "is_autocast_cache_enabled",
    "is_autocast_enabled", "is_grad_enabled", "is_inference", "is_inference_mode_enabled", "jit",
    "kaiser_window", "linalg", "linspace", "load", "load_program", "logspace", "long",
    "manual_seed", "nan", "newaxis", "nn", "no_grad", "ones", "onnx", "optim", "pi", "placeholder",
    "preserve_format", "printoptions", "profile", "promote", "register_dataclass",
    "register_pytree_node", "register_pytree_node_class", "save", "scalar_tensor",
    "seed", "set_default_dtype",
    "set_float32_matmul_precision", "set_grad_enabled", "set_num_threads", "set_printoptions",
    "set_rng_state", "short", "special", "symbol", "tensor", "testing", "tril_indices",
    "triu_indices", "uint8", "use_deterministic_algorithms", "utils", "variable", "vmap", "zeros",
]  # fmt: skip
__all__ += _functions.__all__

newaxis = None
"""In a subscript, a new dim of size 1: ``x[:, newaxis]``."""

__version__ = "0.1.0"

refuses_foreign_in(globals())
