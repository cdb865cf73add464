"""Valid calls of layers, optimisers, schedules and modules, and what such a call is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import staticflow as sf

__all__ = [
    "Public", "layer_arguments", "layers", "modules", "optimisers", "requiring", "sgd", "values",
]  # fmt: skip

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
            if p.name[0] != "_"
            and (p.kind is p.KEYWORD_ONLY or (p.kind is p.POSITIONAL_OR_KEYWORD and i >= len(args)))
        ]  # fmt: skip
        return [*range(len(args)), *dict.fromkeys([*kwargs, *named])]


def values(*shape: int, **kwargs: Any) -> Any:
    return sf.tensor(
        np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape), dtype=sf.float32, **kwargs
    )


def requiring() -> Any:
    return sf.ones(3, requires_grad=True)


def sgd(**options: Any) -> Any:
    parameter = requiring()
    (parameter * 2).sum().backward()
    return sf.optim.SGD([parameter], **{"lr": 0.1, **options})


_LAYERS: dict[str, tuple[list[Any], tuple[tuple[int, ...], ...]]] = {
    "Bilinear": ([3, 3, 2], ((2, 3), (2, 3))),
    "ChannelShuffle": ([2], ((1, 4, 2, 2),)),
    "Embedding": ([5, 3], ()), "EmbeddingBag": ([5, 3], ()),
    "Fold": ([(4, 4), 2], ((2, 4, 9),)),
    "GRU": ([3, 2], ((4, 1, 3),)), "LSTM": ([3, 2], ((4, 1, 3),)), "RNN": ([3, 2], ((4, 1, 3),)),
    "GRUCell": ([3, 2], ((1, 3),)), "LSTMCell": ([3, 2], ((1, 3),)), "RNNCell": ([3, 2], ((1, 3),)),
    "GroupNorm": ([2, 4], ((1, 4, 2),)),
    "LayerNorm": ([3], ((2, 3),)), "RMSNorm": ([3], ((2, 3),)),
    "Linear": ([3, 2], ((2, 3),)), "LazyLinear": ([2], ((2, 3),)),
    "UninitializedParameter": ([], ()), "UninitializedBuffer": ([], ()),
    "LocalResponseNorm": ([2], ((1, 4, 2),)),
    "MultiheadAttention": ([4, 2], ((3, 1, 4),) * 3),
    "PixelShuffle": ([2], ((1, 4, 2, 2),)), "PixelUnshuffle": ([2], ((1, 1, 2, 2),)),
    "Threshold": ([0.1, 0.2], ((2, 3),)),
    "Unflatten": ([1, (1, 3)], ((2, 3),)),
    "Unfold": ([2], ((1, 2, 4, 4),)),
    "Transformer": ([4, 2, 1, 1, 8], ((3, 1, 4), (3, 1, 4))),
    "TransformerEncoderLayer": ([4, 2, 8], ((3, 1, 4),)),
    "TransformerDecoderLayer": ([4, 2, 8], ((3, 1, 4), (3, 1, 4))),
    "TransformerEncoder": ([sf.nn.TransformerEncoderLayer(4, 2, 8), 2], ((3, 1, 4),)),
    "TransformerDecoder": ([sf.nn.TransformerDecoderLayer(4, 2, 8), 2], ((3, 1, 4), (3, 1, 4))),
    "CosineSimilarity": ([], ((2, 3), (2, 3))), "PairwiseDistance": ([], ((2, 3), (2, 3))),
    "Softmax2d": ([], ((1, 2, 3, 3),)), "GLU": ([], ((2, 4),)),
    "Softmax": ([0], ((2, 3),)), "LogSoftmax": ([0], ((2, 3),)), "Softmin": ([0], ((2, 3),)),
    "UpsamplingBilinear2d": ([(4, 4)], ((1, 2, 2, 2),)),
    "UpsamplingNearest2d": ([(4, 4)], ((1, 2, 2, 2),)), "Upsample": ([(4, 4)], ((1, 2, 2, 2),)),
    "AdaptiveLogSoftmaxWithLoss": ([4, 6, [2, 4]], ()), "LinearCrossEntropyLoss": ([3, 5], ()),
    "CTCLoss": ([], ()), "MultiLabelMarginLoss": ([], ()),
    "ModuleList": ([[]], ()), "ModuleDict": ([{}], ()), "ParameterList": ([[]], ()),
    "ParameterDict": ([{}], ()), "Sequential": ([], ((2, 3),)), "Parameter": ([values(2)], ()),
    "SyncBatchNorm": ([3], ((2, 3),)),
}  # fmt: skip
"""The arguments of a layer, and the shapes of what it is called with."""

_IMAGES = {1: (1, 4, 8), 2: (1, 4, 8, 8), 3: (1, 4, 8, 8, 8)}


def layer_arguments(name: str) -> tuple[list[Any], tuple[tuple[int, ...], ...]] | None:
    if name in _LAYERS:
        return _LAYERS[name]
    d = int(name[-2]) if name.endswith("d") and name[-2].isdigit() else 0
    if d:
        images = (_IMAGES[d],)
        for start, args in (
            ("ConvTranspose", [4, 2, 3]), ("Conv", [4, 2, 3]), ("BatchNorm", [4]),
            ("InstanceNorm", [4]), ("LazyConv", [2, 3]), ("Lazy", []), ("Adaptive", [2]), ("FractionalMaxPool", [1, 1]), ("LPPool", [2.0, 2]), ("MaxUnpool", [2]),
            ("ConstantPad", [1, 0.0]), ("Dropout", []),
        ):  # fmt: skip
            if name.startswith(start):
                return list(args), images if start != "MaxUnpool" else ()
        return [1], images
    return ([], ((2, 3), (2, 3))) if name.endswith("Loss") else ([], ((2, 3),))


def layers() -> Iterator[Public]:
    for name in sf.nn.__all__ if hasattr(sf.nn, "__all__") else dir(sf.nn):
        layer = getattr(sf.nn, name)
        if name.startswith("_") or not isinstance(layer, type) or name == "Module":
            continue
        args, shapes = layer_arguments(name)
        yield Public(f"nn.{name}", lambda layer=layer, args=args: (layer, list(args), {}))
        if shapes:
            yield Public(
                f"nn.{name}()",
                lambda layer=layer, args=args, shapes=shapes: (
                    layer(*args),
                    [values(*s) for s in shapes],
                    {},
                ),
            )


def optimisers() -> Iterator[Public]:
    for name in sf.optim.__all__:
        cls = getattr(sf.optim, name)
        if isinstance(cls, type) and issubclass(cls, sf.optim.Optimizer) and name != "Optimizer":
            w = sf.ones(3, 2, requires_grad=True) if name == "Muon" else requiring()
            yield Public(f"optim.{name}", lambda cls=cls, w=w: (cls, [[w]], {"lr": 0.1}))
    for name, args in {
        "step": [], "zero_grad": [], "state_dict": [], "load_state_dict": [{}],
        "add_param_group": [{"params": []}], "minimize": [sf.placeholder(()) * 2.0],
        "updates": [{}], "register_step_post_hook": [lambda *a: None],
        "register_step_pre_hook": [lambda *a: None],
    }.items():  # fmt: skip
        yield Public(f"SGD.{name}", lambda n=name, a=args: (getattr(sgd(), n), list(a), {}))
    own = {
        "LambdaLR": [lambda e: 0.5], "MultiplicativeLR": [lambda e: 0.5], "StepLR": [2],
        "MultiStepLR": [[2, 3]], "ConstantLR": [], "LinearLR": [], "ExponentialLR": [0.5],
        "PolynomialLR": [], "CosineAnnealingLR": [5], "CosineAnnealingWarmRestarts": [5],
        "OneCycleLR": [0.2, 10], "ReduceLROnPlateau": [],
    }  # fmt: skip
    for name, args in own.items():
        cls = getattr(sf.optim.lr_scheduler, name)
        yield Public(f"lr_scheduler.{name}", lambda c=cls, a=args: (c, [sgd(momentum=0.9), *a], {}))
        yield Public(
            f"{name}.step",
            lambda c=cls, a=args: (
                c(sgd(momentum=0.9), *a).step,
                [0.5] if c.__name__ == "ReduceLROnPlateau" else [],
                {},
            ),
        )
        yield Public(
            f"{name}.load_state_dict",
            lambda c=cls, a=args: (c(sgd(momentum=0.9), *a).load_state_dict, [{}], {}),
        )
    L = sf.optim.lr_scheduler
    yield Public("lr_scheduler.CyclicLR", lambda: (L.CyclicLR, [sgd(momentum=0.9), 0.1, 0.2], {}))
    yield Public(
        "lr_scheduler.ChainedScheduler", lambda: (L.ChainedScheduler, [[L.StepLR(sgd(), 2)]], {})
    )
    yield Public("lr_scheduler.SequentialLR", lambda: _sequential())
    S = sf.optim.swa_utils
    yield Public("swa_utils.SWALR", lambda: (S.SWALR, [sgd(), 0.1], {}))
    yield Public("swa_utils.AveragedModel", lambda: (S.AveragedModel, [sf.nn.Linear(3, 3)], {}))
    yield Public("swa_utils.get_ema_avg_fn", lambda: (S.get_ema_avg_fn, [0.9], {}))
    yield Public(
        "swa_utils.update_bn", lambda: (S.update_bn, [[values(2, 3)], sf.nn.BatchNorm1d(3)], {})
    )


def _sequential() -> Arguments:
    L, opt = sf.optim.lr_scheduler, sgd()
    return L.SequentialLR, [opt, [L.StepLR(opt, 2), L.StepLR(opt, 3)], [2]], {}


def modules() -> Iterator[Public]:
    calls: dict[str, list[Any]] = {
        "add_module": ["a", sf.nn.ReLU()], "apply": [lambda m: None], "get_parameter": ["weight"],
        "get_buffer": ["b"], "get_submodule": [""], "load_state_dict": [{}, False], "named_parameters": [],
        "parameters": [], "register_buffer": ["c", values(2)], "register_forward_hook": [lambda *a: None],
        "register_forward_pre_hook": [lambda *a: None], "register_full_backward_hook": [lambda *a: None],
        "register_full_backward_pre_hook": [lambda *a: None], "register_module": ["a", sf.nn.ReLU()],
        "register_parameter": ["p", None], "requires_grad_": [True], "state_dict": [], "to": [sf.float64],
        "train": [True], "type": [sf.float64], "zero_grad": [], "named_buffers": [], "buffers": [],
        "named_modules": [], "eval": [], "half": [], "forward": [values(2, 3)],
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
                getattr(sf.nn.ParameterList([requiring()]), n), [[requiring()] if isinstance(v, list) else v if isinstance(v, int) else requiring() for v in a], {}))  # fmt: skip
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
