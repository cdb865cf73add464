"""Symbols that are views of others: what a change of one is to the other.

In a graph nothing shares memory, so a change of a view is said as a new value of what it is a view
of, and the other way round. Whether a reshape is a view depends on strides, which a graph does not
know: after a change of one of the two the other is not read any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from staticflow.data_classes import dataclass
from staticflow.errors import AutogradError, SymbolicError
from staticflow.graph.dims import Size, same
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import keep_history, stop_gradient
from staticflow.ops.basics.axes import permute_op, t_op, transpose_op
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.slicing import select_op, select_scatter, slice_op, slice_scatter_op
from staticflow.ops.basics.view import ravel, reshape_op, squeeze_op, unsqueeze_op
from staticflow.ops.declaring.required import required_op
from staticflow.ops.declaring.thread import for_itself, recording, thread
from staticflow.ops.indexing.index_functions import index_copy
from staticflow.ops.indexing.index_ops import index_op, index_put_op
from staticflow.ops.indexing.memory_views import as_strided_op, view_positions
from staticflow.ops.matrices.triangle import diagonal_op, diagonal_scatter, unfold_op

__all__ = ["Alias", "Detached", "Lost", "Perhaps", "alias", "view_of"]


@dataclass(slots=True)
class Alias:
    """How a symbol is a view: the view ``op`` of ``base``, which may be a view itself, of the
    symbol or tensor ``root`` when that named the node ``seen``. No gradient flows through a view
    that was not ``recorded``. ``at`` are the places of one that numbers of the graph select."""

    root: Any
    seen: Node | None
    base: Alias | None
    op: Op
    attrs: Mapping[str, Any]
    recorded: bool = True
    at: tuple[Any, ...] = ()

    def is_same(self, other: Alias | Detached | None) -> bool:
        """Whether both are the same view of the same symbol."""
        mine: Alias | None = self
        while mine is not None and type(other) is Alias:
            if mine.root is not other.root or (mine.op, mine.attrs) != (other.op, other.attrs):
                return False
            if len(mine.at) != len(other.at) or not all(map(_is_equal, mine.at, other.at)):
                return False
            mine, other = mine.base, other.base
        return mine is other

    @property
    def is_recorded(self) -> bool:
        """Whether gradients flow through the view to the root."""
        view: Alias | None = self
        while view is not None and view.recorded:
            view = view.base
        return view is None

    def read(self) -> Any:
        """The view of what the root is now."""
        steps = []
        step: Alias | None = self
        while step is not None:
            steps.append(step)
            step = step.base
        x = self.root
        with for_itself():
            for step in reversed(steps):
                x = step.op(x, *step.at, **step.attrs)
                x = x if step.recorded else stop_gradient(x)
        return x

    def put(self, value: Any) -> None:
        """Change the root so that the view of it is ``value``. Raises `AutogradError` where the
        change would be recorded, and the view is not."""
        step: Alias | None = self
        if thread.state.recording and not self.is_recorded:
            raise AutogradError(
                "an in-place operation is to be recorded on a view that was taken in sf.no_grad(), "
                "and so has no part in the history of its base; take the view outside, or change "
                f"it inside, at {format_locs(here())}"
            )
        while step is not None:
            whole = step.root if step.base is None else step.base.read()
            value = _BACK[step.op](step.op, whole, value, *step.at, **step.attrs)
            step = step.base
        self.root._assign(value)


@dataclass(slots=True)
class Detached:
    """How a symbol is on the memory of another: it has the elements of ``root``, a symbol that
    named the node ``seen``, and a history of its own, ``own``."""

    root: Any
    seen: Node | None
    own: Any

    def read(self) -> Any:
        """The elements that the root has now, with the own history."""
        with for_itself():
            return keep_history(self.own, stop_gradient(self.root))

    def put(self, value: Any) -> None:
        """Change the elements of the root, and not its history; the own one is ``value``'s."""
        self.own = value
        with recording(False):
            self.root._assign(value)


@dataclass(slots=True)
class Perhaps:
    """How a symbol is the elements of ``root``, a symbol or tensor that named the node ``seen``, by
    ``fn``, a reshape: a view of it or a copy, as the strides will have it."""

    root: Any
    seen: Node | None
    fn: Callable[..., Any]
    attrs: Mapping[str, Any]

    def read(self) -> NoReturn:
        """Refused: the root was changed."""
        raise SymbolicError(
            f"what was made of {self.root.node.type} by reshape, flatten or contiguous is read "
            f"after that was changed in place (at {format_locs(self.root.node.locs)}), and is a "
            "view of it or a copy, which depends on strides that a graph does not know; write "
            f".view(...) for a view, or .clone() for a copy, at {format_locs(here())}"
        )

    def lose(self) -> None:
        """The symbol is changed: nobody can tell what has become of the root."""
        root, before = self.root, getattr(self.root, "_alias", None)
        while isinstance(before, Alias | Detached):
            root, before = before.root, getattr(before.root, "_alias", None)
        if not hasattr(root, "_own"):  # a tensor, which no graph changes
            root._assign(root)
        root._own("an in-place operation on a reshape", "carry or return it, or change a clone")
        if type(before) is Perhaps:
            before.lose()
        root._alias = Lost(here())


@dataclass(slots=True)
class Lost:
    """What stands for the alias of a symbol of which a reshape was changed, at ``locs``."""

    locs: Locs
    seen: bool = True

    @property
    def root(self) -> NoReturn:
        """Refused: what the symbol is is not known."""
        raise SymbolicError(
            "a value is used of which a reshape, flatten or contiguous was changed in place (at "
            f"{format_locs(self.locs)}): whether that was a view of it or a copy depends on "
            "strides, which a graph does not know; write .view(...) for a view, or .clone() for a "
            f"copy, at {format_locs(here())}"
        )


def _is_view(shape: Sequence[Size], wanted: Sequence[Size]) -> bool:
    """Whether elements in ``shape`` can be seen as ``wanted`` whatever their strides: no two dims
    become one."""
    sizes = iter([s for s in wanted if not same(s, 1)])
    for size in shape:
        part: Size = 1
        while not same(part, size):
            more = next(sizes, None)
            if more is None:
                return False
            part = part * more
    return True


def alias(op: Op, base: Any, attrs: Mapping[str, Any]) -> Alias | Perhaps | None:
    """What the result of ``op`` on ``base`` is a view of, or perhaps; None if it is none."""
    if op not in _BACK or op is index_op:
        return None
    if op is reshape_op and not _is_view(base.__sf_shape__, attrs["shape"]):
        return Perhaps(base, getattr(base, "node", None), op, attrs)
    return view_of(op, base, attrs)


def view_of(op: Op, base: Any, attrs: Mapping[str, Any], at: tuple[Any, ...] = ()) -> Alias:
    """How the result of ``op`` is a view of ``base``; ``at`` the symbols by which it selects."""
    before = getattr(base, "_alias", None)
    if type(before) is Alias:
        return Alias(before.root, before.seen, before, op, attrs, at=at)
    return Alias(base, getattr(base, "node", None), None, op, attrs, at=at)


def _is_equal(a: Any, b: Any) -> bool:
    """Whether two numbers are one, or made alike of nothing."""
    a, b = (getattr(x, "node", x) for x in (a, b))
    if a is b or not (isinstance(a, Node) and isinstance(b, Node)):
        return a is b
    return a.op is b.op and not a.args and not b.args and a.attrs == b.attrs


# -- a changed view put back into the whole -------------------------------------------------------


def _turn_back(op: Op, whole: Any, value: Any, **attrs: Any) -> Any:
    """Views of all elements: the derivative, which only moves elements, goes back."""
    assert op.vjp is not None
    return op.vjp((True,), value, value, whole, **attrs)[0]


def _refuse(op: Op, whole: Any, value: Any, **_: Any) -> Any:
    raise AutogradError(
        f"an in-place operation on the result of {op.name}, of shape {list(value.shape)}: several "
        f"of its elements are one element of what it was made from; change a clone, "
        f"at {format_locs(here())}"
    )


_BACK: dict[Op, Callable[..., Any]] = {
    **dict.fromkeys(
        (reshape_op, squeeze_op, unsqueeze_op, permute_op, transpose_op, t_op, required_op),
        _turn_back,
    ),
    **dict.fromkeys((expand_op, unfold_op), _refuse),
    index_op: lambda op, whole, value, *at, dims: index_put_op(
        whole, value, *at, dims=dims, accumulate=False
    ),
    slice_op: lambda op, whole, value, *, start, size, step: slice_scatter_op(
        whole, value, start=start, step=step
    ),
    select_op: lambda op, whole, value, *, dim, index: select_scatter(whole, value, dim, index),
    diagonal_op: lambda op, whole, value, **at: diagonal_scatter(whole, value, **at),
    as_strided_op: lambda op, whole, value, **at: index_copy(
        whole, 0, view_positions(value, **at), ravel(value)
    ),
}
