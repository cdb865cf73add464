"""What all optimisers share: parameter groups, state, and the two ways to apply an update rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from staticflow.errors import AutogradError, ShapeError
from staticflow.graph.dtypes import float64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.creation import full, ones_like
from staticflow.ops.gradient import pullback
from staticflow.ops.symbol import Symbol, to_node

__all__ = ["Optimizer", "ParamGroup"]


class ParamGroup(Mapping[str, Any]):
    """Parameters and the hyperparameters that they share, as PyTorch's dicts: ``group["lr"]`` is a
    float, ``group["lr"] = 0.01`` sets it, ``group["params"]`` lists the parameters.

    Each hyperparameter in use is a 0-d float64 variable, which compiled programs read at every
    call: setting it recompiles nothing. One that was 0 when the group was made (a learning rate
    apart) is left out of the update rule, buffers and all, and can no longer be set.
    """

    def __init__(self, params: list[Any], values: Mapping[str, float | bool], suffix: str) -> None:
        self.params = params
        self._fixed: dict[str, float | bool] = {}
        self._variables: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, bool) or (value == 0 and name != "lr"):
                self._fixed[name] = value
            else:
                made = full.beside(params[0], shape=(), value=float(value), dtype=float64)
                made.name = name + suffix
                self._variables[name] = made

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return self.params
        return self._fixed[name] if name in self._fixed else self._variables[name].item()

    def __iter__(self) -> Iterator[str]:
        return iter(("params", *self._variables, *self._fixed))

    def __len__(self) -> int:
        return 1 + len(self._variables) + len(self._fixed)

    def __setitem__(self, name: str, value: float) -> None:
        self.check(name, value)
        if name in self._variables:
            self._variables[name][...] = float(value)

    def check(self, name: str, value: float) -> None:
        """Raise `KeyError` or `ValueError` if ``name`` cannot be set to ``value``."""
        if name not in self._variables and name not in self._fixed:
            known = ", ".join(n for n in self if n != "params")
            raise KeyError(f"{name!r} cannot be set; the group has {known}")
        _check_sign(name, value)
        if value != self._fixed.get(name, value):
            raise ValueError(
                f"{name} was {self._fixed[name]} when the optimiser was made, and its update rule "
                f"was built for that; make a new optimiser with {name}={value}"
            )

    def hyper(self, symbolic: bool) -> dict[str, Any]:
        """The hyperparameters in use as an update rule takes them: symbols that read the variables,
        or their values now. A bool is there if it is true."""
        switches: dict[str, Any] = {n: True for n, v in self._fixed.items() if v is True}
        read = {n: _symbol(v) if symbolic else v.item() for n, v in self._variables.items()}
        return switches | read


def _check_sign(name: str, value: float) -> None:
    if value < 0:
        raise ValueError(f"{name} cannot be negative, as {value} is")


def _symbol(tensor: Any) -> Symbol:
    return Symbol(to_node(tensor))


class Optimizer:
    """The base of the optimisers. A subclass gives `update`, the rule, and `init_state`.

    ``params`` are parameters, or dicts with ``"params"`` and hyperparameters of their own, as in
    PyTorch; ``defaults`` are the hyperparameters for those that have none.

    Raises `ValueError` for no parameters, a parameter given twice, a tensor that is no leaf and a
    negative hyperparameter.
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, float | bool]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[ParamGroup] = []
        self.state: dict[Any, dict[str, Any]] = {}
        given = list(params)
        if not given:
            raise ValueError(f"{type(self).__name__} got no parameters")
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    # -- what a subclass says -----------------------------------------------------------------

    def init_state(self, param: Any, hyper: Mapping[str, Any]) -> dict[str, Any]:
        """The first state of a parameter, by name."""
        raise NotImplementedError

    def update(
        self, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The new parameter and the new state. Pure, and written in ops: all are tensors in one
        mode and symbols in the other. ``hyper`` has the hyperparameters in use only."""
        raise NotImplementedError

    # -- the two ways to apply it -------------------------------------------------------------

    def step(self) -> None:
        """Update every parameter that has a ``.grad``, in place, outside the tape."""
        for group in self.param_groups:
            hyper = group.hyper(symbolic=False)
            for param in group.params:
                if param.grad is None:
                    continue
                state = self._state_of(param, hyper)
                # detached: the same memory and version, nothing recorded
                own = param.detach()
                value, after = self.update(own, param.grad.detach(), state, hyper)
                own._assign(value)
                for name, tensor in state.items():
                    tensor._assign(after[name])

    def minimize(self, loss: Any) -> dict[Any, Symbol]:
        """The updates that one step on the symbolic ``loss`` makes, for ``sf.compile``.

        Parameters that the loss does not reach, and frozen ones, are left out.
        Raises `AutogradError` if it reaches none, or is not a single number.
        """
        if not isinstance(loss, Symbol):
            raise AutogradError(
                "minimize takes a symbolic loss; after an eager one call loss.backward() and "
                f"step(), at {format_locs(here())}"
            )
        if loss.shape != ():
            raise AutogradError(
                f"minimize takes a single number, not a loss of shape {list(loss.shape)}; reduce "
                f"it, as in loss.mean(), at {format_locs(here())}"
            )
        params = [p for group in self.param_groups for p in group.params if p.requires_grad]
        found = pullback([loss], [ones_like(loss)], [_symbol(p) for p in params])
        grads = {p: g for p, g in zip(params, found, strict=True) if g is not None}
        if not grads:
            raise AutogradError(
                "minimize: the loss depends on no parameter of this optimiser that requires a "
                f"gradient, at {format_locs(here())}"
            )
        return self.updates(grads)

    def updates(self, grads: Mapping[Any, Any]) -> dict[Any, Symbol]:
        """The updates for symbolic gradients by parameter, to change gradients before they are
        used: ``opt.updates({w: g * scale})``.

        Returns the new value of each parameter and of each tensor of its state.
        """
        result: dict[Any, Symbol] = {}
        for group in self.param_groups:
            hyper = group.hyper(symbolic=True)
            for param in group.params:
                if param not in grads:
                    continue
                state = self._state_of(param, hyper)
                inside = {name: _symbol(tensor) for name, tensor in state.items()}
                value, after = self.update(_symbol(param), grads[param], inside, hyper)
                # a 0-d parameter meets the float64 hyperparameters as an equal: cast back
                result[param] = value.to(param.dtype)
                result |= {tensor: after[name].to(tensor.dtype) for name, tensor in state.items()}
        foreign = [p for p in grads if p not in result]
        if foreign:
            raise ValueError(
                f"updates: a tensor of shape {list(foreign[0].shape)} named {foreign[0].name!r} is "
                "no parameter of this optimiser"
            )
        return result

    # -- groups and state ---------------------------------------------------------------------

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Take more parameters, with hyperparameters of their own where ``group`` has them."""
        params = group["params"]
        params = [params] if hasattr(params, "grad") else list(params)
        known = {id(p) for g in self.param_groups for p in g.params}
        for param in params:
            if id(param) in known:
                raise ValueError(f"the parameter {param.name!r} is given twice")
            if not param.is_leaf:
                raise ValueError(
                    f"a tensor of shape {list(param.shape)} was computed ({param.grad_fn}) and is "
                    "no leaf; optimise what it was computed from"
                )
            known.add(id(param))
        if not params:
            raise ValueError(f"{type(self).__name__} got a group without parameters")
        values = self.defaults | {n: v for n, v in group.items() if n != "params"}
        unknown = values.keys() - self.defaults.keys()
        if unknown:
            raise ValueError(f"{type(self).__name__} has no hyperparameter {sorted(unknown)[0]!r}")
        for name, value in values.items():
            _check_sign(name, value)
        self.check(values)
        suffix = f".{len(self.param_groups)}" if self.param_groups else ""
        self.param_groups.append(ParamGroup(params, values, suffix))

    def check(self, values: Mapping[str, Any]) -> None:
        """Raise `ValueError` for hyperparameters that do not go together."""

    def _state_of(self, param: Any, hyper: Mapping[str, Any]) -> dict[str, Any]:
        if param not in self.state:
            made = self.init_state(param.detach(), hyper)
            for name, tensor in made.items():
                tensor.name = f"{param.name or 'param'}.{name}"
            self.state[param] = made
        return self.state[param]

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for group in self.param_groups:
            for param in group.params:
                param.grad = None

    def state_dict(self) -> dict[str, Any]:
        """State and hyperparameters as PyTorch lays them out: ``state`` by the number of the
        parameter, ``param_groups`` with numbers as ``params``. Tensors are on their own memory."""
        params = [p for group in self.param_groups for p in group.params]
        number = {id(p): i for i, p in enumerate(params)}
        return {
            "state": {number[id(p)]: dict(state) for p, state in self.state.items()},
            "param_groups": [
                {**group, "params": [number[id(p)] for p in group.params]}
                for group in self.param_groups
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take hyperparameters and state as `state_dict` gave them, into the own memory, so that
        compiled programs go on from them.

        Raises `ShapeError` if groups or state do not fit these parameters, before anything is
        changed.
        """
        groups = state["param_groups"]
        sizes = [len(g["params"]) for g in groups]
        if sizes != [len(g.params) for g in self.param_groups]:
            raise ShapeError(
                f"load_state_dict: groups of {sizes} parameters, where "
                f"{[len(g.params) for g in self.param_groups]} are needed"
            )
        settings, states = [], []
        for group, loaded in zip(self.param_groups, groups, strict=True):
            for name in loaded.keys() - {"params"}:
                group.check(name, loaded[name])
                settings.append((group, name, loaded[name]))
            for param, number in zip(group.params, loaded["params"], strict=True):
                own, given = self._state_of(param, group.hyper(False)), state["state"].get(number)
                _check_state(own, given, param)
                states.append((own, given))
        for group, name, value in settings:
            group[name] = value
        for own, given in states:
            for name, tensor in own.items():
                tensor[...] = given[name] if given else 0

    def __repr__(self) -> str:
        lines = [
            f"  group {i}: {', '.join(f'{n}={v}' for n, v in g.items() if n != 'params')}, "
            f"{len(g.params)} parameters"
            for i, g in enumerate(self.param_groups)
        ]
        return "\n".join([f"{type(self).__name__} (", *lines, ")"])


def _check_state(own: Mapping[str, Any], given: Mapping[str, Any] | None, param: Any) -> None:
    if not given:
        return  # a parameter that had taken no step
    if given.keys() != own.keys():
        raise ShapeError(
            f"load_state_dict: the state of {param.name!r} has {sorted(given)}, and "
            f"{sorted(own)} is needed"
        )
    for name, tensor in given.items():
        if tuple(tensor.shape) != own[name].shape:
            raise ShapeError(
                f"load_state_dict: {name} of {param.name!r} has shape {list(tensor.shape)}, and "
                f"{list(own[name].shape)} is needed"
            )
