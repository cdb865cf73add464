"""Valid calls of everything public beside the functions and methods of ops, which
`wrong_arguments.CALLS` has: layers, optimisers, schedules, derivatives, loops, compiling, state files."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import staticflow as sf

__all__ = ["PUBLIC", "Public"]

Arguments = tuple[Callable[..., Any], list[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Public:
    """A valid call, made anew each time."""

    name: str
    make: Callable[[], Arguments]

    def slots(self) -> list[int | str]:
        """The arguments that may be replaced: those of the call, and those that have defaults."""
        fn, args, kwargs = self.make()
        try:
            parameters = inspect.signature(fn).parameters.values()
        except (TypeError, ValueError):
            parameters = ()
        named = [
            p.name for i, p in enumerate(parameters)
            if p.kind is p.KEYWORD_ONLY or (p.kind is p.POSITIONAL_OR_KEYWORD and i >= len(args))
        ]  # fmt: skip
        return [*range(len(args)), *dict.fromkeys([*kwargs, *named])]


def x(*shape: int, **kwargs: Any) -> Any:
    return sf.tensor(
        np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape), dtype=sf.float32, **kwargs
    )


def w() -> Any:
    return sf.ones(3, requires_grad=True)


def _sgd(**options: Any) -> Any:
    parameter = w()
    (parameter * 2).sum().backward()
    return sf.optim.SGD([parameter], **{"lr": 0.1, **options})


def _program() -> Any:
    p = sf.placeholder((None, 3), name="x")
    return sf.compile([p], p * 2)


_LAYERS: dict[str, tuple[list[Any], tuple[tuple[int, ...], ...]]] = {
    "Bilinear": ([3, 3, 2], ((2, 3), (2, 3))),
    "ChannelShuffle": ([2], ((1, 4, 2, 2),)),
    "Embedding": ([5, 3], ()), "EmbeddingBag": ([5, 3], ()),
    "Fold": ([(4, 4), 2], ((2, 4, 9),)),
    "GRU": ([3, 2], ((4, 1, 3),)), "LSTM": ([3, 2], ((4, 1, 3),)), "RNN": ([3, 2], ((4, 1, 3),)),
    "GRUCell": ([3, 2], ((1, 3),)), "LSTMCell": ([3, 2], ((1, 3),)), "RNNCell": ([3, 2], ((1, 3),)),
    "GroupNorm": ([2, 4], ((1, 4, 2),)),
    "LayerNorm": ([3], ((2, 3),)), "RMSNorm": ([3], ((2, 3),)),
    "Linear": ([3, 2], ((2, 3),)),
    "LocalResponseNorm": ([2], ((1, 4, 2),)),
    "MultiheadAttention": ([4, 2], ((3, 1, 4),) * 3),
    "PixelShuffle": ([2], ((1, 4, 2, 2),)), "PixelUnshuffle": ([2], ((1, 1, 2, 2),)),
    "Threshold": ([0.1, 0.2], ((2, 3),)),
    "Unflatten": ([1, (1, 3)], ((2, 3),)),
    "Unfold": ([2], ((1, 2, 4, 4),)),
    "Transformer": ([4, 2, 1, 1, 8], ((3, 1, 4), (3, 1, 4))),
    "TransformerEncoderLayer": ([4, 2, 8], ((3, 1, 4),)),
    "TransformerDecoderLayer": ([4, 2, 8], ((3, 1, 4), (3, 1, 4))),
    "CosineSimilarity": ([], ((2, 3), (2, 3))), "PairwiseDistance": ([], ((2, 3), (2, 3))),
    "Softmax2d": ([], ((1, 2, 3, 3),)), "GLU": ([], ((2, 4),)),
    "Softmax": ([0], ((2, 3),)), "LogSoftmax": ([0], ((2, 3),)), "Softmin": ([0], ((2, 3),)),
    "UpsamplingBilinear2d": ([(4, 4)], ((1, 2, 2, 2),)),
    "UpsamplingNearest2d": ([(4, 4)], ((1, 2, 2, 2),)), "Upsample": ([(4, 4)], ((1, 2, 2, 2),)),
    "CTCLoss": ([], ()), "MultiLabelMarginLoss": ([], ()),
    "ModuleList": ([[]], ()), "ModuleDict": ([{}], ()), "ParameterList": ([[]], ()),
    "ParameterDict": ([{}], ()), "Sequential": ([], ((2, 3),)), "Parameter": ([x(2)], ()),
}  # fmt: skip
"""The arguments of a layer, and the shapes of what it is called with."""

_IMAGES = {1: (1, 4, 8), 2: (1, 4, 8, 8), 3: (1, 4, 8, 8, 8)}


def _of_name(name: str) -> tuple[list[Any], tuple[tuple[int, ...], ...]] | None:
    if name in _LAYERS:
        return _LAYERS[name]
    d = int(name[-2]) if name.endswith("d") and name[-2].isdigit() else 0
    if d:
        images = (_IMAGES[d],)
        for start, args in (
            ("ConvTranspose", [4, 2, 3]), ("Conv", [4, 2, 3]), ("BatchNorm", [4]),
            ("InstanceNorm", [4]), ("Adaptive", [2]), ("LPPool", [2.0, 2]), ("MaxUnpool", [2]),
            ("ConstantPad", [1, 0.0]), ("Dropout", []),
        ):  # fmt: skip
            if name.startswith(start):
                return list(args), images if start != "MaxUnpool" else ()
        return [1], images
    return ([], ((2, 3), (2, 3))) if name.endswith("Loss") else ([], ((2, 3),))


def _layers() -> Iterator[Public]:
    for name in sf.nn.__all__ if hasattr(sf.nn, "__all__") else dir(sf.nn):
        layer = getattr(sf.nn, name)
        if (
            name.startswith("_")
            or not isinstance(layer, type)
            or name
            in (
                "Module",
                "TransformerEncoder",
                "TransformerDecoder",
            )
        ):
            continue
        args, shapes = _of_name(name)
        yield Public(f"nn.{name}", lambda layer=layer, args=args: (layer, list(args), {}))
        if shapes:
            yield Public(
                f"nn.{name}()",
                lambda layer=layer, args=args, shapes=shapes: (
                    layer(*args),
                    [x(*s) for s in shapes],
                    {},
                ),
            )


def _optimisers() -> Iterator[Public]:
    for name in sf.optim.__all__:
        cls = getattr(sf.optim, name)
        if isinstance(cls, type) and issubclass(cls, sf.optim.Optimizer) and name != "Optimizer":
            yield Public(f"optim.{name}", lambda cls=cls: (cls, [[w()]], {"lr": 0.1}))
    for name, args in {
        "step": [], "zero_grad": [], "state_dict": [], "load_state_dict": [{}],
        "add_param_group": [{"params": []}], "minimize": [sf.placeholder(()) * 2.0],
        "updates": [{}], "register_step_post_hook": [lambda *a: None],
        "register_step_pre_hook": [lambda *a: None],
    }.items():  # fmt: skip
        yield Public(f"SGD.{name}", lambda n=name, a=args: (getattr(_sgd(), n), list(a), {}))
    own = {
        "LambdaLR": [lambda e: 0.5], "MultiplicativeLR": [lambda e: 0.5], "StepLR": [2],
        "MultiStepLR": [[2, 3]], "ConstantLR": [], "LinearLR": [], "ExponentialLR": [0.5],
        "PolynomialLR": [], "CosineAnnealingLR": [5], "CosineAnnealingWarmRestarts": [5],
        "OneCycleLR": [0.2, 10], "ReduceLROnPlateau": [],
    }  # fmt: skip
    for name, args in own.items():
        cls = getattr(sf.optim.lr_scheduler, name)
        yield Public(
            f"lr_scheduler.{name}", lambda c=cls, a=args: (c, [_sgd(momentum=0.9), *a], {})
        )
        yield Public(
            f"{name}.step",
            lambda c=cls, a=args: (
                c(_sgd(momentum=0.9), *a).step,
                [0.5] if c.__name__ == "ReduceLROnPlateau" else [],
                {},
            ),
        )
        yield Public(
            f"{name}.load_state_dict",
            lambda c=cls, a=args: (c(_sgd(momentum=0.9), *a).load_state_dict, [{}], {}),
        )
    L = sf.optim.lr_scheduler
    yield Public("lr_scheduler.CyclicLR", lambda: (L.CyclicLR, [_sgd(momentum=0.9), 0.1, 0.2], {}))
    yield Public(
        "lr_scheduler.ChainedScheduler", lambda: (L.ChainedScheduler, [[L.StepLR(_sgd(), 2)]], {})
    )
    yield Public("lr_scheduler.SequentialLR", lambda: _sequential())
    S = sf.optim.swa_utils
    yield Public("swa_utils.SWALR", lambda: (S.SWALR, [_sgd(), 0.1], {}))
    yield Public("swa_utils.AveragedModel", lambda: (S.AveragedModel, [sf.nn.Linear(3, 3)], {}))
    yield Public("swa_utils.get_ema_avg_fn", lambda: (S.get_ema_avg_fn, [0.9], {}))
    yield Public(
        "swa_utils.update_bn", lambda: (S.update_bn, [[x(2, 3)], sf.nn.BatchNorm1d(3)], {})
    )


def _sequential() -> Arguments:
    L, opt = sf.optim.lr_scheduler, _sgd()
    return L.SequentialLR, [opt, [L.StepLR(opt, 2), L.StepLR(opt, 3)], [2]], {}


def _modules() -> Iterator[Public]:
    calls: dict[str, list[Any]] = {
        "add_module": ["a", sf.nn.ReLU()], "apply": [lambda m: None], "get_parameter": ["weight"],
        "get_buffer": ["b"], "get_submodule": [""], "load_state_dict": [{}, False], "named_parameters": [],
        "parameters": [], "register_buffer": ["c", x(2)], "register_forward_hook": [lambda *a: None],
        "register_forward_pre_hook": [lambda *a: None], "register_full_backward_hook": [lambda *a: None],
        "register_full_backward_pre_hook": [lambda *a: None], "register_module": ["a", sf.nn.ReLU()],
        "register_parameter": ["p", None], "requires_grad_": [True], "state_dict": [], "to": [sf.float64],
        "train": [True], "type": [sf.float64], "zero_grad": [], "named_buffers": [], "buffers": [],
        "named_modules": [], "eval": [], "half": [], "forward": [x(2, 3)],
    }  # fmt: skip
    for name, args in calls.items():
        yield Public(
            f"Module.{name}", lambda n=name, a=args: (getattr(sf.nn.Linear(3, 3), n), list(a), {})
        )
    for name, args in {"append": [sf.nn.ReLU()], "extend": [[sf.nn.ReLU()]], "insert": [0, sf.nn.ReLU()], "__getitem__": [0],
                       "__setitem__": [0, sf.nn.ReLU()], "__delitem__": [0], "pop": [0]}.items():  # fmt: skip
        yield Public(
            f"ModuleList.{name}",
            lambda n=name, a=args: (getattr(sf.nn.ModuleList([sf.nn.ReLU()]), n), list(a), {}),
        )
        yield Public(
            f"Sequential.{name}",
            lambda n=name, a=args: (getattr(sf.nn.Sequential(sf.nn.ReLU()), n), list(a), {}),
        )
        if name != "pop":
            yield Public(f"ParameterList.{name}", lambda n=name, a=args: (
                getattr(sf.nn.ParameterList([w()]), n), [[w()] if isinstance(v, list) else v if isinstance(v, int) else w() for v in a], {}))  # fmt: skip
    for name, args in {
        "__getitem__": ["a"],
        "__setitem__": ["b", sf.nn.ReLU()],
        "__delitem__": ["a"],
        "update": [{"c": sf.nn.ReLU()}],
        "pop": ["a"],
    }.items():
        yield Public(
            f"ModuleDict.{name}",
            lambda n=name, a=args: (getattr(sf.nn.ModuleDict({"a": sf.nn.ReLU()}), n), list(a), {}),
        )


def _utilities() -> Iterator[Public]:
    init = {
        "calculate_gain": ["relu"], "constant_": [x(3, 3), 0.5], "dirac_": [x(2, 2, 3)], "eye_": [x(3, 3)],
        "kaiming_normal_": [x(3, 3)], "kaiming_uniform_": [x(3, 3)], "normal_": [x(3, 3)], "ones_": [x(3)],
        "orthogonal_": [x(3, 3)], "sparse_": [x(3, 3), 0.5], "trunc_normal_": [x(3, 3)], "uniform_": [x(3)],
        "xavier_normal_": [x(3, 3)], "xavier_uniform_": [x(3, 3)], "zeros_": [x(3)],
    }  # fmt: skip
    for name, args in init.items():
        yield Public(
            f"init.{name}",
            lambda n=name, a=args: (
                getattr(sf.nn.init, n),
                [v.clone() if isinstance(v, sf.Tensor) else v for v in a],
                {},
            ),
        )
    U, R = sf.nn.utils, sf.nn.utils.rnn
    for name in ("clip_grad_norm", "clip_grad_norm_", "clip_grad_value", "clip_grad_value_"):

        def make(name: str = name) -> Arguments:
            p = w()
            p.grad = x(3)
            return getattr(U, name), [[x(3)] if not name.endswith("_") else [p], 1.0], {}

        yield Public(f"utils.{name}", make)
    yield Public("utils.get_total_norm", lambda: (U.get_total_norm, [[x(3)]], {}))
    yield Public("utils.parameters_to_vector", lambda: (U.parameters_to_vector, [[w()]], {}))
    yield Public("utils.vector_to_parameters", lambda: (U.vector_to_parameters, [x(3), [w()]], {}))
    packed = lambda: R.pack_sequence([x(3, 2), x(2, 2)])  # noqa: E731
    yield Public(
        "rnn.pack_padded_sequence", lambda: (R.pack_padded_sequence, [x(3, 2, 2), [3, 2]], {})
    )
    yield Public("rnn.pack_sequence", lambda: (R.pack_sequence, [[x(3, 2), x(2, 2)]], {}))
    yield Public("rnn.pad_packed_sequence", lambda: (R.pad_packed_sequence, [packed()], {}))
    yield Public("rnn.pad_sequence", lambda: (R.pad_sequence, [[x(3, 2), x(2, 2)]], {}))
    yield Public("rnn.unpack_sequence", lambda: (R.unpack_sequence, [packed()], {}))
    yield Public(
        "rnn.unpad_sequence", lambda: (R.unpad_sequence, [x(3, 2, 2), sf.tensor([3, 2])], {})
    )
    yield Public(
        "nn.functional_call",
        lambda: (sf.func.functional_call, [sf.nn.Linear(3, 3), {}, (x(3, 3),)], {}),
    )
    yield Public("testing.assert_close", lambda: (sf.testing.assert_close, [x(3), x(3)], {}))
    yield Public(
        "utils.checkpoint",
        lambda: (sf.utils.checkpoint.checkpoint, [lambda a: a * 2, w()], {"use_reentrant": False}),
    )
    yield Public(
        "utils.checkpoint_sequential",
        lambda: (
            sf.utils.checkpoint.checkpoint_sequential,
            [[sf.nn.ReLU(), sf.nn.ReLU()], 2, w()],
            {"use_reentrant": False},
        ),
    )


def _derivatives() -> Iterator[Public]:
    square = lambda a: (a * a).sum()  # noqa: E731
    for name in ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev"):
        yield Public(f"func.{name}", lambda n=name: (getattr(sf.func, n), [square], {}))
        yield Public(f"func.{name}()", lambda n=name: (getattr(sf.func, n)(square), [x(3)], {}))
    yield Public("func.jvp", lambda: (sf.func.jvp, [square, (x(3),), (x(3),)], {}))
    yield Public("func.vjp", lambda: (sf.func.vjp, [square, x(3)], {}))
    yield Public("func.vjp()", lambda: (sf.func.vjp(square, x(3))[1], [sf.tensor(1.0)], {}))
    A = sf.autograd
    for name in ("hessian", "jacobian"):
        yield Public(
            f"functional.{name}", lambda n=name: (getattr(A.functional, n), [square, x(3)], {})
        )
    for name in ("hvp", "vhp", "jvp"):
        yield Public(
            f"functional.{name}",
            lambda n=name: (getattr(A.functional, n), [square, x(3), x(3)], {}),
        )
    yield Public("functional.vjp", lambda: (A.functional.vjp, [square, x(3)], {}))
    yield Public("autograd.backward", lambda: (A.backward, [(w() * 2).sum()], {}))

    def grad() -> Arguments:
        p = w()
        return A.grad, [(p * 2).sum(), [p]], {}

    def symbolic() -> Arguments:
        p = sf.placeholder((3,))
        return sf.grad, [(p * p).sum(), [p]], {}

    yield Public("autograd.grad", grad)
    yield Public("sf.grad", symbolic)
    double = lambda: sf.ones(2, dtype=sf.float64, requires_grad=True)  # noqa: E731
    yield Public("autograd.gradcheck", lambda: (A.gradcheck, [square, (double(),)], {}))
    yield Public("autograd.gradgradcheck", lambda: (A.gradgradcheck, [square, (double(),)], {}))
    for name, args in {"no_grad": [], "enable_grad": [], "inference_mode": [], "set_grad_enabled": [True],
                       "detect_anomaly": [], "set_detect_anomaly": [False]}.items():  # fmt: skip
        yield Public(
            f"autograd.{name}", lambda n=name, a=args: (_entered(getattr(A, n)), list(a), {})
        )

    class Double(A.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, a: Any, factor: Any = 2) -> Any:
            ctx.save_for_backward(a)
            return a * factor

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return ct * 2, None

    yield Public("Function.apply", lambda: (Double.apply, [w()], {}))


def _entered(context: Any) -> Any:
    def called(*args: Any, **kwargs: Any) -> None:
        with context(*args, **kwargs):
            pass

    called.__signature__ = inspect.signature(context)  # type: ignore[attr-defined]
    return called


def _tensors() -> Iterator[Public]:
    for name, value in {
        "data": x(3, 3),
        "grad": x(3, 3),
        "requires_grad": True,
        "_version": 3,
        "shape": (9,),
        "dtype": sf.float64,
        "names": None,
    }.items():
        yield Public(f"Tensor.{name} =", lambda n=name, v=value: (_setter(x(3, 3), n), [v], {}))
        yield Public(
            f"Symbol.{name} =",
            lambda n=name, v=value: (_setter(sf.placeholder((3, 3)), n), [v], {}),
        )
    for name, args in {
        "__getitem__": [0], "__setitem__": [0, 0.5], "__contains__": [0.5],
        "backward": [], "register_hook": [lambda g: g], "retain_grad": [], "__eq__": [1], "__pow__": [2], "__rpow__": [2], "__add__": [1], "__radd__": [1], "__iadd__": [1],
        "__lshift__": [1], "__and__": [True], "__matmul__": [x(3, 3)], "__rmatmul__": [x(3, 3)], "__imatmul__": [x(3, 3)], "__floordiv__": [2], "__mod__": [2],
        "__divmod__": [2], "__len__": [], "__reversed__": [], "cuda": [], "item": [], "map_": [x(3, 3), lambda a, b: a],
        "apply_": [lambda a: a], "numpy": [], "tolist": [], "__round__": [],
    }.items():  # fmt: skip
        if hasattr(sf.Tensor, name):
            yield Public(
                f"Tensor.{name}", lambda n=name, a=args: (getattr(x(3, 3), n), list(a), {})
            )
        if hasattr(type(sf.placeholder((3,))), name):
            yield Public(
                f"Symbol.{name}",
                lambda n=name, a=args: (getattr(sf.placeholder((3, 3)), n), list(a), {}),
            )
    for name in ("get_state", "initial_seed", "manual_seed", "seed", "set_state", "draw"):
        args = {"manual_seed": [3], "set_state": [sf.Generator().get_state()]}.get(name, [])
        yield Public(
            f"Generator.{name}", lambda n=name, a=args: (getattr(sf.Generator(), n), list(a), {})
        )
    yield Public("sf.Generator", lambda: (sf.Generator, [], {}))
    yield Public("sf.Tensor", lambda: (sf.Tensor, [2, 3], {}))
    yield Public("sf.LongTensor", lambda: (sf.LongTensor, [2, 3], {}))
    yield Public("sf.device", lambda: (sf.device, ["cpu"], {}))
    yield Public("sf.Size", lambda: (sf.Size, [(2, 3)], {}))
    d = sf.placeholder((None,)).shape[0]
    for name in (
        "__add__",
        "__mul__",
        "__floordiv__",
        "__mod__",
        "__sub__",
        "__rsub__",
        "__rfloordiv__",
        "__eq__",
        "__lt__",
        "__ge__",
        "__pow__",
        "__truediv__",
        "__index__",
        "__int__",
        "__float__",
        "__bool__",
        "__format__",
        "__neg__",
    ):
        if hasattr(d, name):
            yield Public(
                f"Dim.{name}",
                lambda n=name: (
                    getattr(sf.placeholder((None,)).shape[0], n),
                    []
                    if n in ("__index__", "__int__", "__float__", "__bool__", "__neg__")
                    else [2],
                    {},
                ),
            )


def _setter(target: Any, name: str) -> Any:
    def assign(value: Any) -> None:
        setattr(target, name, value)

    return assign


def _programs() -> Iterator[Public]:
    def compiled(**options: Any) -> Arguments:
        p = sf.placeholder((None, 3), name="x")
        return sf.compile, [[p], p * 2], options

    def update() -> Arguments:
        p, v = sf.placeholder((3,), name="x"), sf.variable([1.0, 2.0, 3.0])
        return sf.compile, [[p], (p * v).sum()], {"updates": {v: v + p}}

    yield Public("sf.compile", compiled)
    yield Public("sf.compile updates", update)
    yield Public("Program()", lambda: (_program(), [x(2, 3)], {}))
    yield Public("Program() by name", lambda: (_program(), [], {"x": x(2, 3)}))
    for name in ("check_nan", "explain", "source", "plan"):
        attribute = getattr(_program(), name)
        if callable(attribute):
            args = [x(2, 3)] if name == "check_nan" else []
            yield Public(
                f"Program.{name}", lambda n=name, a=args: (getattr(_program(), n), list(a), {})
            )
    for name in (
        "graph",
        "plan",
        "source",
        "optimized",
        "profile",
        "compile_count",
        "numerics",
        "nothing",
    ):
        yield Public(f"Program.{name} =", lambda n=name: (_setter(_program(), n), [3], {}))
    yield Public("sf.jit", lambda: (sf.jit, [lambda a: a * 2], {}))
    yield Public("jit()", lambda: (sf.jit(lambda a, b=2: a * 2), [x(2, 3)], {}))
    yield Public("jit() of a dict", lambda: (sf.jit(lambda a: a["x"] * 2), [{"x": x(2, 3)}], {}))
    yield Public("sf.placeholder", lambda: (sf.placeholder, [(2, 3)], {}))
    yield Public("sf.symbol", lambda: (sf.symbol, [x(2)] if False else [(2, 3)], {}))
    yield Public("sf.constant", lambda: (sf.constant, [1.0], {}))
    yield Public("sf.variable", lambda: (sf.variable, [[1.0, 2.0]], {}))
    yield Public("sf.print", lambda: (sf.print, [x(2)], {"end": ""}))
    for symbolic in (False, True):

        def a(*shape: int, symbolic: bool = symbolic) -> Any:
            return sf.placeholder(shape) if symbolic else x(*shape)

        mark = " of symbols" if symbolic else ""
        step = lambda c, v: (c + v, c * v)  # noqa: E731
        yield Public(f"sf.scan{mark}", lambda a=a, step=step: (sf.scan, [step, a(3), a(4, 3)], {}))
        yield Public(f"sf.map{mark}", lambda a=a: (sf.map, [lambda v: v * 2, a(4, 3)], {}))
        yield Public(
            f"sf.fori_loop{mark}", lambda a=a: (sf.fori_loop, [0, 3, lambda i, c: c * 2, a(3)], {})
        )
        yield Public(
            f"sf.while_loop{mark}",
            lambda a=a: (sf.while_loop, [lambda c: c.sum() < 9, lambda c: c + 1, a(3)], {}),
        )
        yield Public(
            f"sf.cond{mark}",
            lambda a=a: (sf.cond, [a(3).sum() > 0, lambda v: v, lambda v: -v, a(3)], {}),
        )
        yield Public(
            f"sf.associative_scan{mark}",
            lambda a=a: (sf.associative_scan, [lambda left, right: left + right, a(4, 3)], {}),
        )


def _others() -> Iterator[Public]:
    folder = Path(tempfile.gettempdir())
    file = folder / "staticflow_public_calls.safetensors"
    sf.save({"x": x(2)}, file)
    yield Public("sf.save", lambda: (sf.save, [{"x": x(2)}, str(file)], {}))
    yield Public("sf.load", lambda: (sf.load, [str(file)], {}))
    for name, args in {
        "manual_seed": [3], "seed": [], "set_rng_state": [sf.get_rng_state()], "set_default_dtype": [sf.float32],
        "set_grad_enabled": [True], "set_num_threads": [1], "set_printoptions": [], "fork_rng": [], "printoptions": [],
    }.items():  # fmt: skip
        fn = getattr(sf, name)
        fn = _entered(fn) if name in ("fork_rng", "printoptions", "set_grad_enabled") else fn
        yield Public(f"sf.{name}", lambda fn=fn, a=args: (fn, list(a), {}))
    for name in (
        "current_device",
        "device_count",
        "get_device_name",
        "is_available",
        "synchronize",
    ):
        if name != "is_available":
            continue
        yield Public(f"cuda.{name}", lambda n=name: (getattr(sf.cuda, n), [], {}))
    tree = sf.pytree
    yield Public("pytree.flatten", lambda: (tree.flatten, [{"a": [x(2)]}], {}))
    yield Public("pytree.map_tree", lambda: (tree.map_tree, [lambda a: a, {"a": [x(2)]}], {}))
    yield Public(
        "pytree.unflatten", lambda: (tree.unflatten, [tree.flatten([1, 2])[1], [1, 2]], {})
    )


PUBLIC: dict[str, Public] = {
    p.name: p
    for group in (
        _layers,
        _optimisers,
        _modules,
        _utilities,
        _derivatives,
        _tensors,
        _programs,
        _others,
    )
    for p in group()
}
