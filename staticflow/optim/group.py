"""Parameter groups: parameters and the hyperparameters that they share."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, SupportsFloat

from staticflow import pytree
from staticflow.errors import ArgumentError, SymbolicError
from staticflow.graph.dtypes import float64
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.ops.basics.creation import full
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["ParamGroup", "as_symbol"]

Value = float | bool | Sequence[float | None]

Known = tuple[tuple[str, Any], ...]

Kinds = Mapping[str, int | Collection[Any]]

_EXAMPLES = {
    "betas": "(0.9, 0.999)", "etas": "(0.5, 1.2)", "step_sizes": "(1e-6, 50)",
    "eps": "(None, 1e-3)", "ns_coefficients": "(3.4445, -4.775, 2.0315)",
}  # fmt: skip

_NOT_ABOVE_0 = ("beta2_decay",)
_OF_ANY_SIGN = ("ns_coefficients", "beta2_decay")

# What others write into a group and no update rule reads: the marks of the schedules.
_NOTES = ("initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum")


def as_symbol(tensor: Any) -> Symbol:
    """The symbol that reads ``tensor`` at every call of a program."""
    return Symbol(to_node(tensor))


class ParamGroup(Mapping[str, Any]):
    """Parameters and the hyperparameters that they share, as PyTorch's dicts: ``group["lr"]`` is a
    float, ``group["lr"] = 0.01`` sets it, ``group["params"]`` lists the parameters.

    Each number is held as a 0-d float64 variable, which compiled programs read at every call:
    setting it recompiles nothing. The ``switches`` (bools, and numbers for which 0 means that a
    part of the rule is left out, state and all) are decided when updates for a program are first
    made from the group; before that, and in eager mode, they can be set as well.

    What ``kinds`` names is no single number: of how many it consists, or which values it may have.
    Such a choice is part of the rule as it is written, and programs keep it. A None among several
    numbers stays None.

    The ``others`` are values of any kind, which no rule reads; a group that ``is_free`` takes more
    of them under any name. Of one whose steps are recorded (``is_recorded``) the tensors that
    require a gradient are hyperparameters themselves.
    """

    def __init__(
        self,
        params: list[Any],
        values: Mapping[str, Any],
        switches: tuple[str, ...],
        suffix: str,
        others: Mapping[str, Any] = MappingProxyType({}),
        is_free: bool = False,
        is_recorded: bool = False,
        kinds: Kinds = MappingProxyType({}),
    ) -> None:
        self.params = params
        self.is_free, self.is_recorded = is_free, is_recorded
        self._given = dict(values)
        self._values: dict[str, Any] = {}  # a bool, a variable, or a tuple of variables
        self._switches = switches
        self._kinds = kinds
        self._choices = tuple(n for n, kind in kinds.items() if not isinstance(kind, int))
        self._notes = dict(others)
        self._built: dict[str, bool] = {}  # switches as programs have them
        self._built_at: Locs = ()
        self._is_built = False
        self._flat: dict[tuple[str, ...], tuple[list[Any], pytree.TreeDef, Known]] = {}
        for name, value in values.items():
            made = value if name in self._choices else self._as_variable(name + suffix, value)
            self._values[name] = made

    def _as_variable(self, name: str, value: Value | None) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Sequence):
            return tuple(self._as_variable(f"{name}[{i}]", v) for i, v in enumerate(value))
        made = full.beside(self.params[0], shape=(), value=float(value), dtype=float64)
        if isinstance(made, Symbol):
            raise SymbolicError(
                "an optimiser made where a graph is traced would be a new one in every call; make "
                "it before, and give what it changes to a program: "
                f"sf.compile(inputs, loss, updates=opt.minimize(loss)), at {format_locs(here())}"
            )
        made.name = name
        return made

    # -- as a mapping ---------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            self._refuse_name(name, "is not there")
        if name == "params":
            return self.params
        if name in self._notes:
            return self._notes[name]
        if name not in self._values:
            self._refuse_name(name, "is not there")
        return _each(_number, self._value_of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(("params", *self._values, *self._notes))

    def __len__(self) -> int:
        return 1 + len(self._values) + len(self._notes)

    def __setitem__(self, name: str, value: Any) -> None:
        self.check(name, value)
        if self._is_note(name):
            self._notes[name] = value
            return
        held = self._values[name]
        self._given[name] = value
        if isinstance(held, bool):
            self._values[name] = bool(value)
            return
        if name in self._choices:
            self._values[name] = value
            self._flat.clear()
            return
        pairs = zip(held, value, strict=True) if isinstance(held, tuple) else [(held, value)]
        for variable, number in pairs:
            if variable is not None:
                variable[...] = float(number)

    def setdefault(self, name: str, value: Any) -> Any:
        """``self[name]``, which is first set to ``value`` if there is none."""
        if name not in self:
            self[name] = value
        return self[name]

    def settings(self) -> Any:
        """What `restore` takes: the values of the hyperparameters and the notes."""
        return {n: self[n] for n in self._values}, dict(self._notes)

    def restore(self, settings: Any) -> None:
        """Give the hyperparameters and notes the values of before."""
        values, notes = settings
        for name, value in values.items():
            if self[name] != value:
                self[name] = value
        self._notes = notes

    def check(self, name: str, value: Any) -> None:
        """Raise `KeyError` or `ValueError` if ``name`` cannot be set to ``value``."""
        if self._is_note(name):
            return
        if not isinstance(name, str) or name not in self._values:
            self._refuse_name(name, "cannot be set")
        check_value(name, value, self._kinds)
        self._check_kept(name, value)
        built = self._built.get(name)
        is_bool = isinstance(self._values[name], bool)
        if built is not None and bool(value) != built and (is_bool or not built):
            raise ArgumentError(
                f"{name} was {self[name]} when updates were made for a program (at "
                f"{format_locs(self._built_at)}), and their rule was built for that; set {name} "
                f"before, or make a new optimiser with {name}={value}, at {format_locs(here())}"
            )

    def _check_kept(self, name: str, value: Any) -> None:
        """Raise `ArgumentError` for what a group, or a program made of it, has for good."""
        held = self._values[name]
        if name in self._choices and self._is_built and value != held:
            raise ArgumentError(
                f"{name} was {held!r} when updates were made for a program (at "
                f"{format_locs(self._built_at)}), and their rule was built for that; set {name} "
                f"before, or make a new optimiser with {name}={value!r}, at {format_locs(here())}"
            )
        if isinstance(held, tuple) and any(
            (h is None) != (v is None) for h, v in zip(held, value, strict=True)
        ):
            raise ArgumentError(
                f"{name} is {self[name]}, and what is None in it stays so; make a new optimiser "
                f"with {name}={value}, at {format_locs(here())}"
            )

    def _is_note(self, name: Any) -> bool:
        """Whether ``name`` may be set to anything: no rule reads it."""
        is_free = self.is_free and isinstance(name, str) and name != "params"
        return is_free or name in _NOTES or name in self._notes

    def _refuse_name(self, name: str, what: str) -> NoReturn:
        known = ", ".join([*self._values, *self._notes])
        raise KeyError(f"{name!r} {what}; the group has {known}, at {format_locs(here())}")

    # -- for update rules -----------------------------------------------------------------------

    def numbers(self, changed: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """The hyperparameters in use as an update rule takes them, as numbers; with some of them
        ``changed``."""
        values = {n: changed.get(n, self[n]) for n in self._values}
        return {n: v for n, v in values.items() if self._in_use(n, v)}

    def hyper_on_tape(self) -> dict[str, Any]:
        """The hyperparameters in use for a step on the tape: `numbers`, and the tensors that were
        given and require a gradient."""
        return {n: _or_tensor(v, self._given[n]) for n, v in self.numbers().items()}

    def names_in_use(self) -> tuple[str, ...]:
        """The names of the hyperparameters in use."""
        names = []
        for name, held in self._values.items():
            is_used = self._built.get(name)
            if is_used is None:
                if isinstance(held, bool):
                    is_used = held
                else:
                    is_used = name not in self._switches or bool(_each(_number, held))
            if is_used:
                names.append(name)
        return tuple(names)

    def variables(self, used: Iterable[str]) -> tuple[list[Any], pytree.TreeDef, Known]:
        """The variables that hold the hyperparameters ``used``, as the leaves of a dict and its
        structure, and the names and values of those that are none: bools and choices. Raises
        `KeyError` for other names."""
        used = tuple(used)
        if used not in self._flat:
            for name in used:
                if name not in self._values:
                    self._refuse_name(name, "is no hyperparameter")
            held = {n: self._values[n] for n in used}
            known = {n: v for n, v in held.items() if isinstance(v, bool) or n in self._choices}
            leaves, structure = pytree.flatten({n: held[n] for n in used if n not in known})
            self._flat[used] = leaves, structure, tuple(known.items())
        return self._flat[used]

    def symbols(self) -> dict[str, Any]:
        """The hyperparameters in use as symbols that read the variables. What is in use now stays
        so from here on, and what is not stays out."""
        if not self._is_built:
            self._built = {n: bool(self[n]) for n in self._values if self._is_switch(n)}
            self._built_at, self._is_built = here(), True
        used = [n for n in self._values if self._in_use(n, self[n])]
        return {n: _each(_symbol, self._value_of(n)) for n in used}

    def _value_of(self, name: str) -> Any:
        """A bool, a variable, or several, or of steps on the tape a tensor that was given."""
        held = self._values[name]
        return _or_tensor(held, self._given[name]) if self.is_recorded else held

    def _is_switch(self, name: str) -> bool:
        return name in self._switches or isinstance(self._values[name], bool)

    def _in_use(self, name: str, value: Any) -> bool:
        return self._built.get(name, bool(value) or not self._is_switch(name))


def check_value(name: str, value: Any, kinds: Kinds) -> None:
    """Raise `ArgumentError` for what is not of the kind that a rule has for ``name``, and for a
    number that no rule has a meaning for."""
    kind = kinds.get(name, 1)
    if not isinstance(kind, int):
        _check_choice(name, value, kind)
        return
    if kind > 1:
        _check_several(name, value, kind)
        return
    number = _check_number(name, value)
    if number > 1 and name == "rho":
        raise ArgumentError(f"rho cannot be above 1, as {value} is, at {format_locs(here())}")
    if number < 1 and name == "d":
        raise ArgumentError(f"d cannot be below 1, as {value} is, at {format_locs(here())}")


def _check_choice(name: str, value: Any, allowed: Collection[Any]) -> None:
    if type(value) in (int, str, type(None)) and value in allowed:
        return
    wanted = " or ".join(map(repr, allowed))
    if isinstance(allowed, range):
        wanted = f"an integer from {allowed[0]} to {allowed[-1]}"
    raise ArgumentError(f"{name} is {wanted}, not {reprlib.repr(value)}, at {format_locs(here())}")


def _check_several(name: str, value: Any, count: int) -> None:
    if not (isinstance(value, tuple | list) and len(value) == count):
        words = {2: "two", 3: "three"}.get(count, count)
        example = f", as {_EXAMPLES[name]}" if name in _EXAMPLES else ""
        raise ArgumentError(
            f"{name} are {words} numbers{example}, not {value!r}, at {format_locs(here())}"
        )
    for i, given in enumerate(value):
        if given is None and name == "eps" and i == 0:
            continue
        if _check_number(name, given) >= 1 and name == "betas":
            raise ArgumentError(
                f"{name} must lie below 1, and {given} does not, at {format_locs(here())}"
            )


def _check_number(name: str, given: Any) -> float:
    try:
        number = float(given) if isinstance(given, SupportsFloat) else None
    except (TypeError, ValueError, OverflowError):  # of an array of several, or of 10**400
        number = None
    if number is None:
        raise ArgumentError(
            f"{name} is a number, not {reprlib.repr(given)}, at {format_locs(here())}"
        )
    if name in _NOT_ABOVE_0 and not number <= 0:
        raise ArgumentError(f"{name} cannot be above 0, as {given} is, at {format_locs(here())}")
    if name not in _OF_ANY_SIGN and not number >= 0:  # NaN is not, either
        raise ArgumentError(f"{name} cannot be negative, as {given} is, at {format_locs(here())}")
    return number


def _each(fn: Any, held: Any) -> Any:
    return tuple(map(fn, held)) if isinstance(held, tuple) else fn(held)


def _or_tensor(number: Any, given: Any) -> Any:
    """``number``, or the tensor ``given`` for it where that requires a gradient; several alike."""
    if isinstance(number, tuple):
        return tuple(map(_or_tensor, number, given))
    return given if getattr(given, "requires_grad", False) else number


def _number(held: Any) -> Any:
    return held.item() if hasattr(held, "__sf_mode__") else held


def _symbol(held: Any) -> Any:
    return as_symbol(held) if hasattr(held, "__sf_mode__") else held
