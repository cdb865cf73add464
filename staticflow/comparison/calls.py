"""Calls as text, such as ``Net(hidden=64)`` and ``sgd(momentum=0.9)``, and what they name."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import staticflow.nn.functional as functional
from staticflow import optim
from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import DType, int64

__all__ = ["Call", "NamedLoss", "find_loss", "find_optimizer", "parse_call"]

Loss = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A name with literal arguments; ``text`` is how it was written."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    text: str


def parse_call(text: str, what: str, example: str = "Net(hidden=64)") -> Call:
    """The call that ``text`` is. Raises `ArgumentError`, which says of ``what`` and gives an
    ``example``, for anything but a name, or a name called with literals.

    >>> parse_call("sgd(0.1, momentum=0.9)", "the optimiser")
    Call(name='sgd', args=(0.1,), kwargs={'momentum': 0.9}, text='sgd(0.1, momentum=0.9)')
    """
    wrong = ArgumentError(
        f"{what} {text!r} must be a name, or a name with finite numbers and words in brackets, "
        f"such as {example}"
    )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise wrong from None
    match tree:
        case ast.Name(id=name):
            return Call(name, (), {}, text)
        case ast.Call(func=ast.Name(id=name)):
            try:
                args = tuple(ast.literal_eval(a) for a in tree.args)
                kwargs = {str(k.arg): ast.literal_eval(k.value) for k in tree.keywords}
            except ValueError:
                raise wrong from None
            return Call(name, args, kwargs, text)
    raise wrong


# -- losses ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedLoss:
    """A loss of the model's output and of a target, of which `target_for` says what fits."""

    name: str
    compute: Loss
    targets: int
    """How many arguments it takes beside the output: 0 or 1."""
    classes: bool = False
    """Whether the target has the numbers of classes, along dim 1 of the output."""
    chances: bool = False
    """Whether the target lies between 0 and 1."""

    def __call__(self, output: Any, *targets: Any) -> Any:
        """The loss of the first tensor of an output. A target of more dims than fit that is
        flattened, as the output was."""
        first = _first(output)
        return self.compute(first, *(self._flatten(t, first) for t in targets))

    def _flatten(self, target: Any, output: Any) -> Any:
        fits = output.shape
        if self.classes:
            fits = () if output.ndim == 1 else (output.shape[0], *output.shape[2:])
        return target.reshape(fits) if target.ndim > len(fits) else target

    def target_for(
        self, shape: tuple[tuple[Any, ...], ...], dtype: DType
    ) -> tuple[DType, tuple[Any, ...], Any]:
        """The dtype, shape and bound of a target for an output of ``shape`` and ``dtype``. Each
        size is given by its factors, so that a flattened one has those of before."""
        below: Any = 1 if self.chances else None
        if self.classes:
            dtype, (below, *others) = int64, shape[min(1, len(shape) - 1)]
            if others:  # a bound is a number, or one open size
                below = None
            shape = () if len(shape) == 1 else (shape[0], *shape[2:])
        return dtype, tuple(factor for factors in shape for factor in factors), below


def _first(output: Any) -> Any:
    """The first tensor of an output that is a tuple, a list or a dict."""
    while isinstance(output, tuple | list | dict) and output:
        output = next(iter(output.values() if isinstance(output, dict) else output))
    return output


_CLASSES = {"cross_entropy", "nll_loss"}
_LIKE = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
_CHANCES = {"binary_cross_entropy", "binary_cross_entropy_with_logits"}
_SHORT = {
    "mse": "mse_loss",
    "l1": "l1_loss",
    "mae": "l1_loss",
    "nll": "nll_loss",
    "huber": "huber_loss",
    "smooth_l1": "smooth_l1_loss",
    "bce": "binary_cross_entropy",
    "bce_with_logits": "binary_cross_entropy_with_logits",
}


def find_loss(text: str) -> NamedLoss:
    """The loss of a name such as ``cross_entropy`` or ``huber(delta=0.5)``; ``sum`` and ``mean``
    are those of the output. Raises `ArgumentError` for another name."""
    call = parse_call(text, "the loss", "cross_entropy")
    name = _SHORT.get(call.name, call.name)
    if call.name in ("sum", "mean"):
        return NamedLoss(text, lambda output: getattr(output, call.name)(), 0)
    if name not in _CLASSES | _LIKE | _CHANCES:
        known = ", ".join(sorted(_CLASSES | _LIKE | _CHANCES | {"sum", "mean"}))
        raise ArgumentError(
            f"there is no loss {text!r}; the losses are {known} and none, or write "
            "loss(output, ...) into the file"
        )
    function = getattr(functional, name)

    def compute(output: Any, target: Any) -> Any:
        return function(output, target, *call.args, **call.kwargs)

    return NamedLoss(text, compute, 1, name in _CLASSES, name in _CHANCES)


# -- optimisers ------------------------------------------------------------------------------------

_OPTIMIZERS = {
    name.lower(): getattr(optim, name)
    for name in ("SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam",
                 "RMSprop")
}  # fmt: skip


def find_optimizer(text: str, lr: float | None) -> Callable[[Iterable[Any]], optim.Optimizer]:
    """What makes the optimiser of a name such as ``adam`` or ``sgd(momentum=0.9)`` for parameters.
    Raises `ArgumentError` for another name and for arguments that it does not take."""
    call = parse_call(text, "the optimiser", "sgd(lr=0.1, momentum=0.9)")
    kind = _OPTIMIZERS.get(call.name.lower())
    if kind is None:
        raise ArgumentError(
            f"there is no optimiser {text!r}; the optimisers are {', '.join(_OPTIMIZERS)} and "
            "none, or write optimizer(parameters) into the file"
        )
    kwargs = call.kwargs if lr is None else {**call.kwargs, "lr": lr}
    try:
        inspect.signature(kind).bind((), *call.args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"the optimiser {text!r}: {error}") from None

    def make(parameters: Iterable[Any]) -> optim.Optimizer:
        made = kind(parameters, *call.args, **kwargs)
        assert isinstance(made, optim.Optimizer)
        return made

    return make
