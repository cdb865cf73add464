"""The job of a comparison: a model, its inputs, loss and optimiser, which the command line, the
model's file or the caller gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from staticflow.comparison.assign import assign_inputs, positional, targets_of
from staticflow.comparison.axes import Axes, parse_axes, split_axes
from staticflow.comparison.calls import NamedLoss, find_loss, find_optimizer
from staticflow.comparison.chance import seed_all
from staticflow.comparison.inputs import Batch, Input, inputs_of_batches, parse_inputs
from staticflow.comparison.precision import default_dtype
from staticflow.comparison.source import ModelFile, check_peers, load_file
from staticflow.comparison.trial import add_target, attempt, refuse_arguments, try_once
from staticflow.data_classes import dataclass
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError
from staticflow.graph.articles import with_article
from staticflow.graph.dtypes import DType, dtype_of
from staticflow.nn.module import Module
from staticflow.static.inputs import placeholder

__all__ = ["DTYPES", "Job", "Request", "default_dtype", "job_without_trial", "make_job"]

DTYPES = ("float32", "float64", "float16", "bfloat16")

MOST_STEPS = 10_000_000

RANDOM_BATCHES = 8
"""Inputs that are drawn at random come in so many batches, by turns."""

Make = Callable[..., Module]
Loss = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asks for, as words and numbers: whatever is None is taken from the file, or
    has its default. ``target`` is ``FILE.py:NAME``."""

    target: str
    inputs: tuple[str, ...] = ()
    loss: str | None = None
    optimizer: str | None = None
    lr: float | None = None
    steps: int = 100
    seed: int = 0
    dtype: str = "float32"
    sweep: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A comparison that can be run: every part of it is known and has been tried once.

    The model takes the first ``model_takes`` of the inputs, the loss its output and those that
    ``loss_takes`` numbers. Without a ``loss`` the model is only run forward; without an
    ``optimizer`` a step ends with the gradients.
    """

    name: str
    source: str
    make: Make
    inputs: tuple[Input, ...]
    sizes: dict[str, int]
    """An example of each open size."""
    model_takes: int
    loss: Loss | None
    loss_takes: tuple[int, ...]
    loss_name: str
    optimizer: Callable[[Iterable[Any]], Any] | None
    optimizer_name: str
    steps: int
    seed: int
    dtype: str
    data: tuple[Batch, ...] = ()
    """The batches that were given; they are drawn at random where there are none."""
    request: Request | None = None
    """What a fresh process needs to make the same job; None if it cannot."""
    notes: tuple[str, ...] = field(default=())
    peers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Counterparts of the model under other libraries, as `time_peers` takes them."""
    evaluate: Callable[[Module, int], Any] | None = None
    """What tells how good a trained model is, as `find_scores` takes it."""
    sweep: Axes | None = None
    """The sizes at which both modes are timed; None if nobody said which."""

    def batches(self, count: int, sizes: Mapping[str, int] | None = None) -> list[Batch]:
        """The arrays of ``count`` steps. With ``sizes``, those of other open sizes at random."""
        if self.data and sizes is None:
            return list(itertools.islice(itertools.cycle(self.data), count))
        random = np.random.default_rng(self.seed)
        known = {**self.sizes, **(sizes or {})}
        try:
            drawn = [
                tuple(x.draw(random, known) for x in self.inputs)
                for _ in range(min(count, RANDOM_BATCHES))
            ]
        except (MemoryError, OverflowError, ValueError) as error:  # of sizes that no memory holds
            shown = ", ".join(x.describe(known) for x in self.inputs)
            raise ArgumentError(f"the inputs ({shown}) cannot be drawn: {error}") from None
        return list(itertools.islice(itertools.cycle(drawn), count))

    def make_model(self, dtype: str | None = None) -> Module:
        """The model as the seed makes it, in ``dtype`` if not in that of the job."""
        seed_all(self.seed)
        with default_dtype("float32"):  # so that every dtype begins with the same numbers
            return self.make().to(dtype=dtype_of(dtype or self.dtype))

    def make_optimizer(self, model: Module) -> Any:
        """The optimiser of the model's parameters; None if there is none."""
        return None if self.optimizer is None else self.optimizer(model.parameters())

    def output_of(self, model: Module, arguments: Sequence[Any]) -> Any:
        """The output of the model for tensors or symbols."""
        return model(*arguments[: self.model_takes])

    def loss_of(self, output: Any, arguments: Sequence[Any]) -> Any:
        """The loss of an output, which must not be None."""
        assert self.loss is not None
        return self.loss(output, *(arguments[i] for i in self.loss_takes))

    def placeholders(self) -> list[Any]:
        """A symbol for each input."""
        return [placeholder(x.shape, x.dtype, name=x.name) for x in self.inputs]

    def in_dtype(self, dtype: str) -> Job:
        """The job in another floating dtype, with the parameters and data of this one."""
        kind = dtype_of(dtype)
        inputs = tuple(replace(x, dtype=kind) if x.dtype.is_floating else x for x in self.inputs)
        data = tuple(_convert(inputs, batch) for batch in self.data or self.batches(RANDOM_BATCHES))
        return replace(self, inputs=inputs, data=data, dtype=dtype)


def _convert(inputs: Sequence[Input], batch: Batch) -> Batch:
    return tuple(x.convert(a) for x, a in zip(inputs, batch, strict=True))


# -- from a request --------------------------------------------------------------------------------


def make_job(
    file: ModelFile,
    inputs: Any = None,
    loss: Any = None,
    optimizer: Any = None,
    lr: float | None = None,
    steps: int = 100,
    seed: int = 0,
    dtype: str = "float32",
    request: Request | None = None,
    sweep: str | None = None,
) -> Job:
    """The job: what is None is taken from ``file``. Runs the model once, forward.

    Raises `ArgumentError` for parts that are missing or do not fit together.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ArgumentError(f"the seed is {seed!r}; it must be a whole number from 0 on")
    if steps > MOST_STEPS:
        raise ArgumentError(f"at most {MOST_STEPS:,} steps are compared, not {steps:,}")
    kind = dtype_of(dtype)
    given, sizes, data = _find_inputs(file, inputs, steps, seed, kind)
    loss_function, loss_name = _find_loss(file, loss)
    make_optimizer, optimizer_name = _find_optimizer(file, optimizer, lr)
    refuse_arguments(file)
    model = attempt(lambda: _make_by_seed(file.make, seed), f"{file.name} cannot be made")
    least, most, names = positional(model.forward)
    wanted = targets_of(loss_function)
    makes_target = isinstance(loss_function, NamedLoss) and loss_function.targets > 0
    model_takes, loss_takes, given = assign_inputs(given, least, most, names, wanted, makes_target)
    job = Job(
        file.name, file.source, file.make, tuple(given), sizes, model_takes, loss_function,
        loss_takes, loss_name, make_optimizer, optimizer_name, steps, seed, dtype, data, request,
    )  # fmt: skip
    job = replace(
        job,
        peers=check_peers(file.names.get("peers", {})),
        evaluate=_find_evaluate(file),
        sweep=_find_sweep(file, sweep, sizes),
    )
    if isinstance(loss_function, NamedLoss) and makes_target and not loss_takes:
        job = add_target(job, loss_function)
    return try_once(job)


def job_without_trial(request: Request, model_takes: int, loss_takes: tuple[int, ...]) -> Job:
    """The job of a request whose inputs are all written out, in a process that has not run
    anything yet. Nothing is checked: `make_job` has done it."""
    file = load_file(request.target)
    inputs, sizes = parse_inputs(request.inputs)
    loss, loss_name = _find_loss(file, request.loss)
    optimizer, name = _find_optimizer(file, request.optimizer, request.lr)
    return Job(
        file.name, file.source, file.make, tuple(inputs), sizes, model_takes, loss, loss_takes,
        loss_name, optimizer, name, request.steps, request.seed, request.dtype,
    )  # fmt: skip


def _make_by_seed(make: Make, seed: int) -> Module:
    seed_all(seed)
    return make()


def _find_inputs(
    file: ModelFile, inputs: Any, steps: int, seed: int, dtype: DType
) -> tuple[list[Input], dict[str, int], tuple[Batch, ...]]:
    """The inputs, an example of their open sizes, and the batches that there are."""
    batches = file.names.get("batches") if inputs is None else None
    example = file.names.get("example_inputs") if inputs is None else inputs
    if callable(example):
        example = attempt(example, "example_inputs()")
    if example is None and batches is None:
        raise ArgumentError(
            f'{file.source} says nothing of its inputs; give them, such as "f32[batch=32, 784]" '
            "(--input on the command line), or write example_inputs, a tuple, into the file"
        )
    data: list[Batch] = []
    if batches is not None:
        made = attempt(lambda: list(itertools.islice(iter(batches(seed)), steps)), "batches(seed)")
        data = [_arrays(batch, "a batch") for batch in made]
        if not data or len({len(batch) for batch in data}) != 1:
            raise ArgumentError("batches(seed) must give tuples of arrays, all of one length")
    texts = _texts(example)
    if texts is not None:
        declared, sizes = parse_inputs(texts, dtype)
    else:
        data = data or [_arrays(example, "example_inputs")]
        declared, sizes = inputs_of_batches(data, dtype)
    if data and len(data[0]) != len(declared):
        raise ArgumentError(
            f"a batch has {len(data[0])} arrays, and example_inputs {len(declared)}; both must "
            "have the same"
        )
    if not declared:
        raise ArgumentError("there must be at least one input, and none is given")
    return declared, sizes, tuple(_convert(declared, batch) for batch in data)


def _texts(example: Any) -> list[str] | None:
    """The inputs that are written out, or None if they are arrays, or follow from the batches."""
    if isinstance(example, str):
        return [example]
    if not isinstance(example, tuple | list) or not example:
        return None
    are_texts = [isinstance(x, str) for x in example]
    if any(are_texts) != all(are_texts):
        raise ArgumentError("example_inputs are all text, or all arrays, and not some of either")
    return list(example) if all(are_texts) else None


def _arrays(batch: Any, what: str) -> Batch:
    items = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    wrong = f"{what} must be a tuple of arrays or tensors of numbers"
    try:
        arrays = tuple(
            x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x) for x in items
        )
    except ValueError as error:  # such as rows of several lengths
        raise ArgumentError(f"{wrong}: {error}") from None
    for x, array in zip(items, arrays, strict=True):
        if array.dtype == object:
            raise ArgumentError(f"{wrong}, not of {with_article(type(x))}")
    return arrays


def _find_evaluate(file: ModelFile) -> Callable[[Module, int], Any] | None:
    found = file.names.get("evaluate")
    if found is not None and not callable(found):
        raise ArgumentError(
            f"evaluate is of type {type(found).__name__}; it must be a function of the trained "
            "model and the seed that gives numbers by name"
        )
    return found


def _find_sweep(file: ModelFile, sweep: Any, sizes: dict[str, int]) -> Axes | None:
    given = file.names.get("sweep") if sweep is None else sweep
    if given is None:
        return None
    if not isinstance(given, str):
        raise ArgumentError(
            f"the sweep is of type {type(given).__name__}; it must be a text such as "
            '"batch=1,8,64 width=16,256"'
        )
    axes = parse_axes(given)
    split_axes(axes, sizes, file.make)
    return axes


def _find_loss(file: ModelFile, loss: Any) -> tuple[Loss | None, str]:
    given = file.names.get("loss") if loss is None else loss
    if given is None or given == "none":
        return None, "none"
    if isinstance(given, str):
        return find_loss(given), given
    if isinstance(given, type) and issubclass(given, Module):
        given = attempt(given, f"the loss {given.__name__} cannot be made")
    if not callable(given):
        raise ArgumentError(
            f"the loss is {with_article(type(given))}; it must be a name or a function of the "
            "output"
        )
    return given, getattr(given, "__name__", type(given).__name__)


def _find_optimizer(
    file: ModelFile, optimizer: Any, lr: float | None
) -> tuple[Callable[[Iterable[Any]], Any] | None, str]:
    given = file.names.get("optimizer") if optimizer is None else optimizer
    if given is None and lr is not None:
        raise ArgumentError("a learning rate needs an optimiser, as --optimizer sgd")
    if given is None or given == "none":
        return None, "none"
    if isinstance(given, str):
        return find_optimizer(given, lr), given
    if not callable(given):
        raise ArgumentError(
            f"the optimiser is {with_article(type(given))}; it must be a name, or a function that "
            "makes one of the parameters"
        )
    if lr is not None:
        raise ArgumentError("the file's optimizer has its own learning rate; name one to set it")
    return given, getattr(given, "__name__", type(given).__name__)
