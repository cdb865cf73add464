"""What Python asks of the value of a tensor, which for a symbol only a run of the program tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from staticflow.errors import SymbolicError
from staticflow.graph.dims import Dim
from staticflow.graph.locs import format_locs, here

if TYPE_CHECKING:
    from staticflow.graph.node import Node
    from staticflow.graph.types import Shape

__all__ = ["RefusedValues"]


class RefusedValues:
    """Numbers, truths and arrays of a symbol: errors that say what to write instead."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def ndim(self) -> int:
            """The number of dims."""

        @property
        def node(self) -> Node:
            """The node that the symbol names."""

        @property
        def shape(self) -> Shape:
            """The sizes, some of them unknown."""

        def __getitem__(self, key: Any) -> Any: ...

    def _refuse(self, wanted: str, instead: str) -> NoReturn:
        raise SymbolicError(
            f"{wanted} of a symbolic value ({self.node.op.name}: {self.node.type}, made at "
            f"{format_locs(self.node.locs)}) is known only when the program runs; {instead}, "
            f"at {format_locs(here())}"
        )

    def __bool__(self) -> bool:
        self._refuse(
            "the truth",
            "instead of a Python if write sf.where(condition, a, b), or sf.cond(condition, f, g, x)"
            " to run one of two functions; instead of a while sf.while_loop(condition, body, x)",
        )

    def __int__(self) -> int:
        self._refuse("the number", "keep computing with the symbol, or compile it and call it")

    __float__ = __int__

    def __index__(self) -> int:
        self._refuse(
            "the number",
            "instead of range(n) write sf.fori_loop(0, n, body, x); instead of a list's element, "
            "an element of a tensor",
        )

    def item(self, *, force: bool = False) -> Any:
        """Refused: a symbol has no number yet."""
        self._refuse(
            "the number",
            "go on with the symbol itself, which serves where a number does in what is computed, "
            "or compile it with sf.compile and call the program",
        )

    numpy = tolist = item

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._refuse("the array", "use the functions of sf instead of NumPy's")

    def __iter__(self) -> Any:
        if self.ndim == 0 or isinstance(self.shape[0], Dim):
            self._refuse(
                "the iteration",
                "loop over the first dim with sf.scan, or have its size known, by a number in the "
                "placeholder or sf.jit(fn, dynamic=False)",
            )
        return (self[i] for i in range(self.shape[0]))

    def backward(self, *_: Any, **__: Any) -> None:
        """Refused: a symbolic gradient is asked for with ``sf.grad``."""
        self._refuse("the gradient", "build it with sf.grad(loss, [w, ...]) and compile that")
