"""Every method of the objects that a user holds, called with what it cannot take; and every attribute
of theirs, which is set to it before the object is used. Constructors, too, whose object is used."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from public_layers import Arguments, Public, layer_arguments, requiring, sgd, values

import staticflow as sf
from staticflow import nn

__all__ = ["objects"]

L = sf.optim.lr_scheduler
Make = Callable[[], Any]


def _with_gradient() -> Any:
    parameter = requiring()
    (parameter * 2).sum().backward()
    return parameter


def _program() -> Any:
    p = sf.placeholder((None, 3), name="x")
    return sf.compile([p], p * 2)


def _called(*shapes: tuple[int, ...]) -> Callable[[Any], Any]:
    """Use of a layer: it is called, shown and saved."""
    return lambda o: (o(*(values(*s) for s in shapes)), repr(o), o.state_dict())


def _stepped(o: Any) -> Any:
    return o.step(), o.state_dict()


def _shown(o: Any) -> Any:
    return repr(o)


_ROWS = (2, 3)

OBJECTS: dict[str, tuple[Make, Callable[[Any], Any]]] = {
    "Linear": (lambda: nn.Linear(3, 3), _called(_ROWS)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), _called(_ROWS)),
    "Conv2d": (lambda: nn.Conv2d(1, 1, 2), _called((1, 1, 4, 4))),
    "LSTM": (lambda: nn.LSTM(3, 2), _called((4, 1, 3))),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2), _called(*[(3, 1, 4)] * 3)),
    "Sequential": (lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()), _called(_ROWS)),
    "ModuleList": (lambda: nn.ModuleList([nn.ReLU()]), lambda o: (repr(o), list(o))),
    "ModuleDict": (lambda: nn.ModuleDict({"a": nn.ReLU()}), lambda o: (repr(o), list(o))),
    "ParameterList": (lambda: nn.ParameterList([requiring()]), lambda o: (repr(o), list(o))),
    "ParameterDict": (lambda: nn.ParameterDict({"a": requiring()}), lambda o: (repr(o), list(o))),
    "SGD": (lambda: sgd(momentum=0.9), lambda o: (o.step(), o.zero_grad(), o.state_dict())),
    "Adam": (lambda: sf.optim.Adam([_with_gradient()]), lambda o: (o.step(), copy.deepcopy(o))),
    "LBFGS": (lambda: sf.optim.LBFGS([_with_gradient()]), lambda o: o.state_dict()),
    "ParamGroup": (lambda: sgd().param_groups[0], lambda o: (dict(o), repr(o))),
    "StepLR": (lambda: L.StepLR(sgd(), 2), _stepped),
    "OneCycleLR": (lambda: L.OneCycleLR(sgd(momentum=0.9), 0.1, 10), _stepped),
    "ReduceLROnPlateau": (lambda: L.ReduceLROnPlateau(sgd()), lambda o: (o.step(0.5), repr(o))),
    "AveragedModel": (
        lambda: sf.optim.swa_utils.AveragedModel(nn.Linear(3, 3)),
        lambda o: (o.update_parameters(nn.Linear(3, 3)), o(values(2, 3))),
    ),
    "Generator": (sf.Generator, lambda o: (sf.rand(2, generator=o), copy.deepcopy(o))),
    "Program": (_program, lambda o: (o(values(2, 3)), repr(o), o.explain())),
    "jit": (lambda: sf.jit(_doubled), lambda o: (o(values(2, 3)), repr(o))),
    "PackedSequence": (
        lambda: nn.utils.rnn.pack_sequence([values(3, 2), values(2, 2)]),
        nn.utils.rnn.pad_packed_sequence,
    ),
    "Parameter": (lambda: nn.Parameter(values(3)), lambda o: (repr(o), o + 1, copy.deepcopy(o))),
    "Tensor": (lambda: values(3), lambda o: (repr(o), o + 1, copy.deepcopy(o), o.add_(1))),
    "view": (lambda: values(3, 3)[1:], lambda o: (repr(o), o + 1, o.add_(1))),
    "Symbol": (lambda: sf.placeholder((3, 3)), lambda o: (repr(o), o + 1)),
    "size": (lambda: sf.placeholder((None,)).shape[0], lambda o: (repr(o), o + 1)),
    "handle": (lambda: requiring().register_hook(lambda g: g), lambda o: o.remove()),
    "grad_fn": (lambda: (requiring() * 2).grad_fn, lambda o: (repr(o), o.next_functions)),
    "no_grad": (sf.no_grad, lambda o: (o.__enter__(), o.__exit__())),
    "inference_mode": (sf.inference_mode, lambda o: (o.__enter__(), o.__exit__())),
    "svd": (lambda: sf.linalg.svd(values(3, 3)), _shown),
    "plan": (lambda: _program().plan, _shown),
    "graph": (lambda: _program().graph, _shown),
    "finfo": (lambda: sf.finfo(sf.float32), _shown),
}
"""How an object is made, and how it is used."""

_OPERATORS = (
    "__getitem__", "__setitem__", "__delitem__", "__contains__", "__eq__", "__lt__", "__add__",
    "__iadd__", "__or__", "__call__",
)  # fmt: skip
_AMONG_OURS = {
    "init_state", "update", "apply_rule", "on_symbols", "forward", "restore", "numbers", "check",
    "of", "pull", "kept_name", "saved_values", "ufunc", "serial", "edges", "counters", "evaluate",
    "variables",
}  # fmt: skip
"""What the library calls, without a frame that words errors."""

_BASES = ("Module", "Parameter", "UninitializedBuffer", "UninitializedParameter")
_HAVE_CALLS = ("Parameter", "Symbol", "Tensor", "view")  # in `wrong_arguments.CALLS`
_OF_TUPLES = {"count", "index", "__getitem__", "__contains__", "__add__", "__eq__", "__lt__"}


def _doubled(x: Any) -> Any:
    return x * 2


def objects() -> Iterator[Public]:
    for name, (make, use) in OBJECTS.items():
        made = make()
        for attribute in dir(made):
            is_named = not attribute.startswith("_") or attribute in _OPERATORS
            of_tuple = isinstance(made, tuple) and attribute in _OF_TUPLES
            if not is_named or of_tuple or attribute in _AMONG_OURS:
                continue
            try:
                value = getattr(made, attribute)
            except (sf.StaticflowError, AttributeError):
                continue
            if not callable(value) or isinstance(value, nn.Module):
                yield Public(
                    f"{name}.{attribute} =",
                    lambda m=make, u=use, a=attribute: (_set_and_used(m, u, a), [1], {}),
                )
            elif name not in _HAVE_CALLS:
                yield Public(
                    f"{name}.{attribute}", lambda m=make, a=attribute: _call_of(getattr(m(), a))
                )
    for name in dir(nn):
        layer = getattr(nn, name)
        if not name.startswith("_") and isinstance(layer, type) and name not in _BASES:
            args, shapes = layer_arguments(name)
            yield Public(
                f"nn.{name} used",
                lambda c=layer, a=args, s=shapes: (_made_and_used(c, _called(*s)), list(a), {}),
            )
    for name in ("grad", "grad_and_value", "jacfwd", "jacrev"):
        yield Public(f"func.{name} used", lambda n=name: (_derivative(n), [_squared], {}))


def _squared(x: Any) -> Any:
    return (x * x).sum()


def _derivative(name: str) -> Callable[..., Any]:
    transform = getattr(sf.func, name)
    return _made_and_used(transform, lambda derivative: derivative(values(3)))


def _call_of(fn: Callable[..., Any]) -> Arguments:
    """A call with a number for each argument that has no default."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return fn, [1], {}
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in named]
    return fn, [1] * len(needed), {}


def _set_and_used(make: Make, use: Callable[[Any], Any], attribute: str) -> Callable[[Any], Any]:
    def set_and_used(value: Any) -> None:
        made = make()
        setattr(made, attribute, value)
        use(made)

    return set_and_used


def _made_and_used(make: Callable[..., Any], use: Callable[[Any], Any]) -> Callable[..., Any]:
    def made_and_used(*args: Any, **kwargs: Any) -> None:
        use(make(*args, **kwargs))

    made_and_used.__signature__ = inspect.signature(make)  # type: ignore[attr-defined]
    made_and_used.__qualname__ = "made_and_used"
    return made_and_used
