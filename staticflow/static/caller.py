"""The call of a compiled program in Python: what the native entry does not do, and the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow import pytree
from staticflow.config import config
from staticflow.data_classes import dataclass
from staticflow.eager.device import CPU, is_array_of
from staticflow.eager.tensor import Tensor
from staticflow.errors import (
    DeviceError,
    IndexRangeError,
    NanError,
    ShapeError,
    StaticflowError,
    SymbolicError,
)
from staticflow.graph.device import device
from staticflow.graph.dtypes import DType, weak_dtype
from staticflow.graph.graph import Graph
from staticflow.graph.library_arrays import array_of, refuse_history
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.graph.masked_arrays import refuse_masked
from staticflow.ops.loops.printing import quiet
from staticflow.runtime.runnable import Runnable
from staticflow.static.budget import hold_to_budget
from staticflow.static.donation import Donations
from staticflow.static.interpretation import interpreter
from staticflow.static.nan import find_nan
from staticflow.static.placement import may_stand_beside

__all__ = ["Caller"]

_wrap = Tensor._wrap
_EXAMPLE = _wrap(np.empty(()))

_OF_VALUES = (IndexRangeError, ShapeError)
"""Errors whose cause may be a value that only the run can tell."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls an ``executable`` that was compiled of ``graph`` at the lines ``made``.

    ``names`` are those of the inputs, ``variables`` the tensors that it reads besides, ``updated``
    those that it writes; results come in ``structure``, some of them in the memory of inputs.
    """

    executable: Runnable
    graph: Graph
    names: tuple[str, ...]
    variables: tuple[Tensor, ...]
    updated: tuple[Tensor, ...]
    structure: pytree.TreeDef
    made: Locs
    donations: Donations | None = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run on NumPy arrays or tensors; gives eager tensors in the structure of the outputs."""
        if named:
            args = self._in_order(args, named)
        if config.check_nan:
            self.check_nan(*args)
        try:
            results = self.executable.fast(*args)
            if results is None or type(results) is int:
                results = self._explain(args, results)
        except KeyboardInterrupt:  # which may come as the run has ended
            self._count_updates()
            raise
        if self.updated:
            self._count_updates()
        if self.structure.kind is None:
            return _wrap(results)
        arrays = results if type(results) is tuple else (results,)
        return pytree.unflatten(self.structure, map(_wrap, arrays))

    def _count_updates(self) -> None:
        for t in self.updated:
            memory = t._memory or t._own_memory()
            memory.version += 1
            memory.locs = self.made

    def entry(self) -> Callable[..., Any]:
        """What is called in the place of this: native code where it can be, held to the budgets of
        memory of the graph."""
        single = self.structure.kind is None and not self.updated
        call = self.executable.boxing(self, _EXAMPLE) if single else self
        return hold_to_budget(self.graph, self.executable, call, self.arrays)

    def arrays(self, *args: Any, **named: Any) -> list[Any]:
        """What the executable takes: the arrays of the arguments, and those of the variables."""
        given = self._arguments(self._in_order(args, named) if named else args)
        return [*given, *self._variable_arrays()]

    def _variable_arrays(self) -> list[Any]:
        where = self.executable.where
        return [_there(v, f"the variable {v.name or ''}".strip(), where) for v in self.variables]

    def check_nan(self, *args: Any) -> None:
        """Look for the node of a run on ``args`` that makes the first NaN, as `Program.check_nan`
        says."""
        given = self.executable.to_host(self.arrays(*args))
        try:
            find_nan(self.graph, given, self._flushes)
        except NanError as error:
            raise NanError(f"{error}; called at {format_locs(here())}") from None

    @property
    def _flushes(self) -> bool:
        """Whether subnormal numbers are zero to the program."""
        return self.executable.program.flushes is not None

    def _explain(self, args: tuple[Any, ...], status: int | None) -> Any:
        """The results, or the error worded, of a call that the native entry did not take (None), or
        that failed with ``status``."""
        inputs = self._arguments(args)
        if status is None:  # numbers, and arrays of other libraries, are arrays now
            status = results = self.executable.fast(*self.executable.in_rows(inputs))
            if results is not None and type(results) is not int:
                return results
        if self.donations is not None:
            inputs = self.donations.take(args, inputs)
        given = [*inputs, *self._variable_arrays()]
        try:
            if status is not None:
                self.executable.fail(status)
            arrays = self.executable(given)
        except StaticflowError as error:
            which = self._which(given, error) if isinstance(error, _OF_VALUES) else ""
            raise type(error)(
                f"{error}{which}; the program was compiled at {format_locs(self.made)}, "
                f"called at {format_locs(here())}"
            ) from None
        if self.donations is not None:
            arrays = self.donations.give(args, inputs, arrays)
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    def _which(self, arrays: list[Any], found: StaticflowError) -> str:
        """Which index lies outside, or size is wrong: the graph as it was written knows, run op by
        op."""
        try:
            with quiet():
                interpreter(self._flushes)(self.graph, self.executable.to_host(arrays))
        except type(found) as error:
            return "" if str(error) in str(found) else f" ({_rest(str(error), str(found))})"
        except Exception:  # of which the program says nothing
            return ""
        return ""

    def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        rest = [named.pop(n) for n in self.names[len(args) :] if n in named]
        for name in named:
            known = f"the inputs are {', '.join(self.names)}"
            wrong = f"no input is called {name!r}; {known}"
            if name in self.names:
                wrong = (
                    f"the input {name!r} is given twice, by its position and by its name; {known}"
                )
            raise ShapeError(f"{wrong}, at {format_locs(here())}")
        return (*args, *rest)

    def _arguments(self, args: tuple[Any, ...]) -> list[Any]:
        if len(args) != len(self.names):
            raise ShapeError(
                f"the program takes {len(self.names)} inputs ({', '.join(self.names)}), "
                f"{len(args)} were given, at {format_locs(here())}"
            )
        return [
            _as_array(a, n, p.tensor_type.dtype, self.executable.where)
            for a, n, p in zip(args, self.names, self.graph.params, strict=False)
        ]


def _rest(message: str, said: str) -> str:
    """``message`` without the words with which ``said`` begins, too; what goes on with a verb has
    "it" for them."""
    words, known = message.split(" "), said.split(" ")
    same = next((i for i, (a, b) in enumerate(zip(words, known, strict=False)) if a != b), 0)
    rest = " ".join(words[same:])
    return f"it {rest}" if same and rest.startswith("is ") else rest


def _there(t: Tensor, what: str, where: device) -> Any:
    """The array of a tensor that a program on the device ``where`` reads; of one that is small it
    takes that of the CPU, too."""
    gpu = t.__sf_gpu__
    if (gpu or CPU) == where or (gpu is None and may_stand_beside(t)):
        return t._data
    raise DeviceError(
        f"{what} is on {t.device}, and the program was compiled for {_device_in_words(where)}; "
        f"move it with .to({str(where)!r}), or compile for {_device_in_words(t.device)}, "
        f"at {format_locs(here())}"
    )


def _device_in_words(where: device) -> str:
    return "the CPU" if where == CPU else str(where)


def _as_array(value: Any, name: str, dtype: DType, where: device) -> Any:
    if isinstance(value, Tensor):
        return _there(value, f"the input {name}", where)
    if isinstance(value, np.ndarray | np.generic):
        refuse_masked(value)
        return np.asarray(value)
    if isinstance(value, bool | int | float):  # a number takes the dtype that holds its kind
        return np.asarray(value, weak_dtype(value, dtype).numpy)
    if hasattr(value, "__dlpack__"):
        refuse_history(value, f"the input {name}")
        if where != CPU and is_array_of(value, where):
            return value
        return array_of(value, f"the input {name}")
    raise SymbolicError(
        f"the input {name} is {type(value).__name__}; give a NumPy array or a tensor, "
        f"at {format_locs(here())}"
    )
