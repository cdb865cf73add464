"""What all optimisers share: parameter groups, state, and the two ways to apply an update rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any, ClassVar

from staticflow.errors import ArgumentError, AutogradError, DTypeError
from staticflow.graph.articles import class_in_words, is_of_library, with_article
from staticflow.graph.dtypes import float64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.collectives import shard_op
from staticflow.ops.basics.creation import ones_like
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.foreign import how_to_wrap
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import recording, thread
from staticflow.ops.symbols.captured import part_of
from staticflow.ops.symbols.gradient import pullback
from staticflow.ops.symbols.handle import Handle
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.symbols.watching import run_leaf_hooks
from staticflow.optim.at_once import stepper
from staticflow.optim.group import ParamGroup, as_symbol, check_value
from staticflow.optim.own_step import has_own_step
from staticflow.optim.recorded_step import HOW, is_recorded, take_recorded_step
from staticflow.optim.rule_on_symbols import RuleOnSymbols
from staticflow.optim.saved_state import load_state, name_state, state_to_save, whole_value

__all__ = ["Optimizer"]

StepHook = Callable[["Optimizer", tuple[Any, ...], dict[str, Any]], Any]


class Optimizer:
    """The base of the optimisers. A subclass gives `update`, the rule, and `init_state`, from which
    `step`, `minimize` and `updates` follow.

    A subclass that gives a ``step`` of its own in their place, as in PyTorch, works on tensors
    alone: its groups and its ``state``, a dict for each parameter, hold whatever it puts there.

    ``params`` are parameters, or dicts with ``"params"`` and hyperparameters of their own, as in
    PyTorch; ``defaults`` are the hyperparameters for those that have none.

    ``foreach``, ``fused`` and ``capturable`` are accepted where PyTorch's optimisers take them, and
    change nothing: a rule is compiled to one pass over the memory of a parameter in any case, and
    is part of a graph by `minimize`. With ``differentiable=True`` a step is recorded on the tape:
    gradients go through it to the parameters before, which may have a history, to their gradients,
    and to hyperparameters that are tensors which require one.

    Raises `ValueError` for no parameters, a parameter given twice, a tensor that is no leaf and,
    where there is a rule, a hyperparameter without meaning, such as a negative one.

    >>> import staticflow as sf
    >>> class Signs(Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     @sf.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 self.state[p]["steps"] = self.state[p].get("steps", 0) + 1
    ...                 p.sub_(p.grad.sign(), alpha=group["lr"])
    >>> w = sf.tensor([1.0, -2.0], requires_grad=True)
    >>> opt = Signs([w], 0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w, opt.state_dict()["state"]
    (tensor([ 0.5000, -1.5000], requires_grad=True), {0: {'steps': 1}})
    """

    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)
    """The numbers for which 0 means that a part of the rule is left out."""
    counters: ClassVar[tuple[str, ...]] = ("step",)
    """The parts of the state that are single numbers: `update` takes them as `hyper` is taken."""

    fixed: ClassVar[tuple[str, ...]] = ()
    """The hyperparameters that a saved state does not change."""

    kinds: ClassVar[Mapping[str, int | Collection[Any]]] = {"betas": 2}
    """The hyperparameters that are no single number: of how many they consist, or the values (None,
    words or integers) of one that says how the rule is written."""

    by_element: ClassVar[bool] = False
    """Whether `update` treats each element of a parameter by itself, whatever its dims."""

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self._groups: list[ParamGroup] = []
        self.state: dict[Any, dict[str, Any]] = defaultdict(dict)
        self._before_step: dict[Handle, StepHook] = {}
        self._after_step: dict[Handle, StepHook] = {}
        self._parts: dict[tuple[str, ...], frozenset[str]] = {}  # of the state, by what is in use
        single = isinstance(params, Mapping) or hasattr(params, "grad")
        if single or not isinstance(params, Iterable):
            name = type(self).__name__
            of_model = hasattr(params, "parameters") or hasattr(params, "__func__")
            which = "model.parameters()" if of_model else "[w]"
            raise DTypeError(
                f"{name} takes a list of parameters or of groups, not a single "
                f"{type(params).__name__}: {name}({which}, ...), at {format_locs(here())}"
            )
        given = _list(params, type(self).__name__)
        if not given:
            raise ArgumentError(
                f"{type(self).__name__} got no parameters; a module has those that are attributes "
                "as nn.Parameter, and those of modules that are attributes or in an nn.ModuleList"
                f", at {format_locs(here())}"
            )
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    @property
    def param_groups(self) -> list[ParamGroup]:
        """The groups, each a mapping of its parameters and hyperparameters. Another list of groups
        may take their place; raises `DTypeError` for anything else."""
        return self._groups

    @param_groups.setter
    def param_groups(self, groups: list[ParamGroup]) -> None:
        if not isinstance(groups, list) or not all(isinstance(g, ParamGroup) for g in groups):
            raise DTypeError(
                f"{type(self).__name__}.param_groups is a list of groups, as add_param_group makes "
                f"them; {with_article(type(groups))} cannot take its place, "
                f"at {format_locs(here())}"
            )
        self._groups = groups

    # -- what a subclass says -----------------------------------------------------------------

    def init_state(
        self, param: Any, hyper: Mapping[str, Any], known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The first state of a parameter, by name. What is ``known`` already stays: it came from
        steps without one of the ``hyper``, or from a state file of PyTorch."""
        raise NotImplementedError(_no_rule(type(self), "init_state"))

    @classmethod
    def update(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The new parameter and the new state. Pure, and written in ops: all are tensors in one
        mode and symbols in the other, where ``hyper`` and the counters of the state are numbers in
        the one and symbols of 0 dims in the other. ``hyper`` has what is in use only."""
        raise NotImplementedError(_no_rule(cls, "update"))

    def check(self, values: Mapping[str, Any]) -> None:
        """Raise `ValueError` for hyperparameters that do not go together."""

    # -- the two ways to apply it -------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a ``.grad``, in place, outside the tape.

        A ``closure``, which computes the loss and calls backward, is called first, and recorded;
        its loss is returned.
        """
        args = () if closure is None else (closure,)
        for hook in list(self._before_step.values()):
            hook(self, args, {})
        state = thread.state
        before = state.recording
        try:
            state.recording = False
            loss = self._step(closure)
        finally:
            state.recording = before
        for hook in list(self._after_step.values()):
            hook(self, args, {})
        return loss

    def _step(self, closure: Callable[[], Any] | None) -> Any:
        loss = None if closure is None else self._loss_of(closure)
        for group in self._groups:
            params = [p for p in group.params if p._grad is not None]
            if group.is_recorded:
                hyper = group.hyper_on_tape()
                states = [self._state_of(p, hyper) for p in params]
                take_recorded_step(type(self).__name__, self._now, hyper, params, states)
            elif params:
                self._step_of(group, params)
        return loss

    @staticmethod
    def _loss_of(closure: Callable[[], Any]) -> Any:
        if not callable(closure):
            raise DTypeError(
                f"step: the closure computes the loss, a function, not {type(closure).__name__}, "
                f"at {format_locs(here())}"
            )
        with recording(True):
            return closure()

    def _step_of(self, group: ParamGroup, params: Sequence[Any]) -> None:
        kind: Any = type(self)
        used = group.names_in_use()
        leaves, structure, known = group.variables(used)
        needed: Any = self._parts.get(used)  # of the state
        names: Any = None
        rests = self.rests_at_zero(used)
        for param in params:
            state = self.state.get(param)
            if state is None or needed is None or not needed <= state.keys():
                state = self._state_of(param, group.numbers())
                needed = self._parts[used]
            if tuple(state) != names:
                names = tuple(state)
                at_once = stepper(kind, names, structure, known)(*leaves)
            if rests and eager.step_rows(param, partial(self._rows_after, group, at_once)):
                continue
            if not at_once(param, *state.values(), param._grad):
                value, after = self._now(param, param._grad, state, group.numbers())
                param._assign(value)
                for name, new in after.items():
                    state[name]._assign(new)

    def _rows_after(
        self, group: ParamGroup, at_once: Callable[..., bool], rows: Any, gradients: Any
    ) -> Any:
        """Some rows of a parameter after a step by their gradients."""
        if at_once(rows, gradients):
            return rows
        value, _ = self._now(rows, gradients, {}, group.numbers())
        return value

    @classmethod
    def rests_at_zero(cls, used: Collection[str]) -> bool:
        """Whether a step, with the hyperparameters that are ``used``, has no state and leaves alone
        what has a gradient of 0."""
        return False

    def register_step_pre_hook(self, hook: StepHook) -> Handle:
        """Call ``hook(optimizer, args, kwargs)`` before each eager step, until the handle is
        removed; the arguments are those of `step`."""
        return Handle(self._before_step, hook)

    def register_step_post_hook(self, hook: StepHook) -> Handle:
        """Call ``hook(optimizer, args, kwargs)`` after each eager step."""
        return Handle(self._after_step, hook)

    def _now(
        self, param: Any, grad: Any, tensors: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The rule on tensors, with Python's numbers for those of 0 dims that have no history."""
        state = {
            n: t.item() if n in self.counters and not t.requires_grad else t
            for n, t in tensors.items()
        }
        value, after = self.apply_rule(param, grad, state, hyper)
        numbers = {n: tensors[n] * 0 + v for n, v in after.items() if n in self.counters}
        return value, after | numbers

    @classmethod
    def apply_rule(
        cls, param: Any, grad: Any, state: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """`update`, the other way where the loss is to be maximised."""
        return cls.update(param, -grad if "maximize" in hyper else grad, state, hyper)

    @classmethod
    def on_symbols(
        cls, param: Any, grad: Any, tensors: Mapping[str, Any], hyper: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The rule on symbols, its results in the dtypes that they are stored in."""
        state = {n: t.to(float64) if n in cls.counters else t for n, t in tensors.items()}
        value, after = cls.apply_rule(param, grad, state, hyper)
        # a 0-d parameter meets the float64 hyperparameters as an equal: cast back
        return value.to(param.dtype), {n: v.to(tensors[n].dtype) for n, v in after.items()}

    def minimize(self, loss: Any) -> dict[Any, Symbol]:
        """The updates that one step on the symbolic ``loss`` makes, for ``sf.compile``.

        Parameters that the loss does not reach, and frozen ones, are left out.
        Raises `AutogradError` if it reaches none, or is not a single number.
        """
        return self.updates(self.gradients(loss))

    def gradients(self, loss: Any) -> dict[Any, Symbol]:
        """The symbolic gradient of ``loss`` by parameter, for `updates`: between the two gradients
        can be changed, as by ``nn.utils.clip_grad_norm``."""
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
        found = pullback([loss], [ones_like(loss)], [as_symbol(p) for p in params])
        grads = {
            p: self._split_as_state(p, run_leaf_hooks(p, g))
            for p, g in zip(params, found, strict=True)
            if g is not None
        }
        if not grads:
            raise AutogradError(
                "minimize: the loss depends on no parameter of this optimiser that requires a "
                f"gradient, at {format_locs(here())}"
            )
        return grads

    def _split_as_state(self, param: Any, grad: Any) -> Any:
        """The gradient in parts, if what it updates is: the rank that has a part needs no more."""
        for tensor in (param, *self.state.get(param, {}).values()):
            part = part_of(tensor)
            if part is not None and part.shape == param.shape:
                return shard_op(grad, spec=part.spec)
        return grad

    def updates(self, grads: Mapping[Any, Any]) -> dict[Any, Symbol]:
        """The updates for symbolic gradients by parameter: ``opt.updates({w: g * scale})``.

        Returns the new value of each parameter and of each tensor of its state.
        """
        if not isinstance(grads, Mapping):
            raise ArgumentError(
                "updates: the gradients must be a dict by parameter, as in opt.updates({w: g}), "
                f"not {type(grads).__name__}; dict(zip(params, sf.grad(loss, params))) makes one "
                f"of a list, at {format_locs(here())}"
            )
        result: dict[Any, Symbol] = {}
        for group in self.param_groups:
            hyper = group.symbols() if any(p in grads for p in group.params) else {}
            rule = RuleOnSymbols(self.on_symbols, hyper)
            for param in group.params:
                if param not in grads:
                    continue
                tensors = self._state_of(param, group.numbers())
                state = {n: as_symbol(t) for n, t in tensors.items()}
                new, after = rule.run(as_symbol(param), grads[param], state)
                result[param] = new
                result |= {tensors[n]: v for n, v in after.items()}
        foreign = [p for p in grads if p not in result]
        if foreign:
            shape = list(getattr(foreign[0], "shape", ()))
            name = getattr(foreign[0], "name", foreign[0])
            raise ArgumentError(
                f"updates: {with_article(type(foreign[0]))} of shape {shape} named {name!r} is "
                f"no parameter of this optimiser, at {format_locs(here())}"
            )
        return result

    # -- groups and state ---------------------------------------------------------------------

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Take more parameters, with hyperparameters of their own where ``param_group`` has
        them."""
        params = param_group["params"]
        params = [params] if hasattr(params, "grad") else _list(params, type(self).__name__)
        # named_parameters() gives pairs
        params = [p[1] if isinstance(p, tuple) and len(p) == 2 else p for p in params]
        known = {id(p) for g in self.param_groups for p in g.params}
        values = self.defaults | {n: v for n, v in param_group.items() if n != "params"}
        for i, param in enumerate(params):
            if not hasattr(param, "grad_fn") or not hasattr(param, "__sf_mode__"):
                what, advice = with_article(type(param)), "give tensors, as model.parameters() does"
                if is_of_library(param):
                    what, advice = class_in_words(param), how_to_wrap(param)
                if what.startswith("torch."):
                    advice = "take its module over with sf.torch.from_module(...)"
                raise ArgumentError(
                    f"{type(self).__name__}: parameter {i} is {what}; {advice}, "
                    f"at {format_locs(here())}"
                )
            if id(param) in known:
                called = repr(param.name) if param.name else f"{i}, of shape {list(param.shape)},"
                raise ArgumentError(
                    f"the parameter {called} is given twice, at {format_locs(here())}"
                )
            if not param.is_leaf and not values.get("differentiable"):
                raise ArgumentError(
                    f"a tensor of shape {list(param.shape)} was computed ({param.grad_fn}) and is "
                    "no leaf; optimise what it was computed from, or with differentiable=True "
                    f"step on the tape, at {format_locs(here())}"
                )
            known.add(id(param))
        if not params:
            raise ArgumentError(
                f"{type(self).__name__} got a group without parameters, at {format_locs(here())}"
            )
        suffix = f".{len(self.param_groups)}" if self.param_groups else ""
        if has_own_step(type(self), Optimizer):
            self.param_groups.append(ParamGroup(params, {}, (), suffix, values, is_free=True))
            return
        how = {n: values.pop(n) for n in HOW if n in self.defaults}
        recorded = is_recorded(type(self).__name__, how)
        unknown = values.keys() - self.defaults.keys()
        others: dict[str, Any] = {}
        if isinstance(param_group, ParamGroup):  # of an optimiser that wraps this one
            others = {n: values.pop(n) for n in unknown}
        elif unknown:
            raise ArgumentError(
                f"{type(self).__name__} has no hyperparameter {sorted(unknown)[0]!r}"
                f", at {format_locs(here())}"
            )
        for name, value in values.items():
            check_value(name, value, self.kinds)
        self.check(values)
        group = ParamGroup(
            params, values, self.switches, suffix, others, is_recorded=recorded,
            kinds=self.kinds,
        )  # fmt: skip
        self.param_groups.append(group)

    def _state_of(self, param: Any, hyper: Mapping[str, Any]) -> dict[str, Any]:
        """The state of a parameter, with all that the rule needs of it now."""
        state = self.state.setdefault(param, {})
        needed = self._parts.get(tuple(hyper))
        if needed is None or not needed <= state.keys():
            first = self.init_state(whole_value(param).detach(), hyper, state)
            self._parts[tuple(hyper)] = frozenset(first)
            for name, tensor in first.items():
                if name not in state:
                    state[name] = name_state(param, name, tensor)
        return state

    def make_state(self) -> dict[Any, dict[str, Any]]:
        """The state of all parameters, by parameter and name; what is not there yet is made, as the
        first step would."""
        for group in self.param_groups:
            for param in group.params:
                self._state_of(param, group.numbers())
        return self.state

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; or fill them with zeros, in place."""
        if set_to_none is not True:
            set_to_none = as_bool(f"{type(self).__name__}.zero_grad: 'set_to_none'", set_to_none)
        for group in self.param_groups:
            for param in group.params:
                if set_to_none or param._grad is None:
                    param.grad = None
                else:
                    param.grad = param.grad.detach().zero_()

    def state_dict(self) -> dict[str, Any]:
        """State and hyperparameters as PyTorch lays them out: ``state`` by the number of the
        parameter, ``param_groups`` with numbers as ``params``. Tensors are on their own memory, but
        those of which each of several processes has a part: these are whole, and new."""
        return state_to_save(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take hyperparameters and state as `state_dict` (or PyTorch's) gave them, into the own
        memory, so that compiled programs go on from them.

        Raises `CheckpointError`, `ShapeError`, `KeyError` or `ValueError` if groups or state do not
        fit, before anything is changed.
        """
        load_state(self, state_dict, has_own_step(type(self), Optimizer))

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines += [f"Parameter Group {i}"]
            lines += [f"    {n}: {group[n]}" for n in sorted(group) if n != "params"]
        return "\n".join([f"{type(self).__name__} (", *lines, ")"])


def _list(params: Iterable[Any], optimiser: str) -> list[Any]:
    """The parameters or groups, in their order; raises `DTypeError` for a set, which has none."""
    if isinstance(params, Set):
        raise DTypeError(
            f"{optimiser}: the parameters are a set, whose order changes from run to run, and with "
            f"it whose state is whose; give a list, at {format_locs(here())}"
        )
    return list(params)


def _no_rule(optimiser: type, method: str) -> str:
    return (
        f"{optimiser.__name__} has no {method}, and so no rule for programs and for the step of "
        "Optimizer: define init_state and update, or for tensors alone a step, "
        f"at {format_locs(here())}"
    )
