"""The declaration of an operation: all that both modes and both back ends know of it.

Ops are declared in `staticflow.ops`; this layer only knows what they declare.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError
from staticflow.graph.articles import class_in_words, is_of_library
from staticflow.graph.locs import format_locs, here
from staticflow.graph.out import into
from staticflow.graph.types import Facts, TensorType, Type

__all__ = ["OUT", "NumPy", "Numbers", "Op", "Promotion", "Vjp", "takes"]

OUT = -1
"""In `Op.saves`: the op's own output, or all of several."""

Vjp = Callable[..., Sequence[Any]]

Promotion = Literal["none", "common", "float", "tail"]
"""What happens to operands of several dtypes: nothing; they meet in one (``common``); the same, and
integers become the default float; or the same of all but the first (``tail``)."""

Numbers = Literal["fit", "wrap", "power"]
"""What a Python integer is beside integer tensors that cannot hold it: refused (``fit``), taken
modulo 2**bits (``wrap``), or of a power the base so, while the exponent must fit and not be
negative."""

NumPy = Literal["faster", "slower", "small", "alone", "rows"]
"""Where NumPy is as fast at an op as the compiler's kernel of it: everywhere (``faster``); nowhere
(``slower``); on ``small`` arrays; on one thread (``alone``); along some ``rows``, by their length
and by how they lie. What runs the op eagerly follows from it (`staticflow.eager.costs`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation. Compared by identity; calling it applies it in the mode of its arguments.

    - ``infer(facts, *types, **attrs)`` gives the result's type or raises `ShapeError`/`DTypeError`.
    - ``reference(xp, *arrays, **attrs)`` computes it with NumPy (or cupy): the oracle of the tests,
      and how it runs eagerly where ``numpy`` is as fast as the kernel.
    - ``vjp(needs, ct, out, *args, **attrs)`` gives a cotangent for each argument (None where
      ``needs`` is False or there is none), written in ops. None: not differentiable.
    - ``saves`` are the arguments (by position, `OUT` for the output) whose *values* the vjp uses,
      of an op where that depends on attributes, sizes or dtypes: all that any call needs. None: a
      trace of the vjp tells it (`staticflow.ops.symbols.saves`).
    - ``jvp(tangents, out, *args, **attrs)`` gives the tangent of the result (a list of them where
      there are several) from those of the arguments (None: no change), written in ops. None: what
      follows from the vjp, which is linear in its cotangent, by transposing that.
    - ``flows(**attrs)`` says of each result which arguments (by position) its gradient may go to.
      None: all of them.
    - ``lowering`` says how kernels compute it, a kind of `staticflow.ops.declaring.lowering`;
      ``decompose(*args, **attrs)`` says it in other ops instead. Exactly one of them is given.
    - ``promote`` says what happens to operands of several dtypes: a `Promotion`.
    - ``kinds`` are the dtype kinds that promoted operands may have.
    - ``numbers`` says what a Python integer is that does not fit: one of `Numbers`.
    - ``piecewise_linear``: of the first argument its vjp knows only on which of straight pieces it
      lies. Differentiated again on the tape that gives zeros, as in PyTorch, and not None.
    - ``commutes``: with its two arguments exchanged it gives the same bits.
    - ``ufunc`` names the NumPy ufunc that the op is on operands of one dtype, if it is one.
    - ``numpy`` says where NumPy is as fast at it as the kernel of it: one of `NumPy`; ``exact``
      that both give the same bits, so that either may compute it.
    - ``shapeless``: of the second argument the kernel reads no values, and takes it as a vector, so
      that one serves all shapes.
    - ``batched`` are the arguments (by position) that begin with a batch. The kernels that run
      eagerly, and the compiled vjps of large arrays, know no size but those of 1; of an op that is
      batched, all sizes but the batch's.
    - ``grad_name`` is the name that ``grad_fn`` prints, as PyTorch's.
    - ``names`` are the names by which its arguments may be given, PyTorch's.
    """

    name: str
    doc: str
    infer: Callable[..., Type]
    reference: Callable[..., Any]
    vjp: Vjp | None
    jvp: Callable[..., Any] | None = None
    flows: Callable[..., Sequence[Collection[int]]] | None = None
    lowering: Any = None
    decompose: Callable[..., Any] | None = None
    saves: Sequence[int] | None = None
    promote: Promotion = "none"
    kinds: str = "biuf"
    numbers: Numbers = "fit"
    piecewise_linear: bool = False
    commutes: bool = False
    ufunc: str | None = None
    numpy: NumPy = "faster"
    exact: bool = False
    shapeless: bool = False
    batched: tuple[int, ...] = ()
    grad_name: str = ""
    names: tuple[str, ...] = ("input", "other")

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Apply the op: runs now on tensors, makes a node if any argument is a symbol."""
        if args and not attrs:
            forms = getattr(args[0], "__sf_forms__", None)  # of tensors: native code
            if forms and self in forms:
                return forms[self](*args)
        return self.call(*args, **attrs)

    def call(self, *args: Any, **attrs: Any) -> Any:
        """The op applied by the mode of the arguments, which are sorted and counted before."""
        if attrs:
            if "out" in attrs:
                return into(self.name, self, args, attrs)
            for name in self.names[len(args) :]:
                if name in attrs:
                    args += (attrs.pop(name),)
        least, most, allowed = takes(self)
        if not least <= len(args) <= most or not (allowed is None or allowed.issuperset(attrs)):
            self._refuse(args, attrs)
        mode = None
        for arg in args:
            candidate = getattr(arg, "__sf_mode__", None)
            if candidate is not None and (mode is None or candidate.rank > mode.rank):
                mode = candidate
        if mode is None:
            given = ", ".join(map(class_in_words, args)) or "nothing"
            raise DTypeError(
                f"{self.name}({given}): one argument at least must be a staticflow tensor or "
                f"symbol; {_how_to_wrap(args)}, at {format_locs(here())}",
                args[0] if args else None,
                "a tensor",
            )
        return mode.apply(self, args, attrs)

    def _refuse(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> NoReturn:
        least, _, allowed = takes(self)
        names = (*self.names[:least], *sorted(allowed or ()))
        given = ", ".join((*map(class_in_words, args), *(f"{name}=" for name in attrs)))
        raise TypeError(
            f"{self.name}({given}): it takes {self.name}({', '.join(names)}), "
            f"at {format_locs(here())}"
        )

    if not TYPE_CHECKING:  # a checker would take every attribute of this class for a method

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """An op that stands in a class is a method of it, as a function is."""
            return self if instance is None else MethodType(self, instance)

    def type_of(self, facts: Facts, types: Sequence[Type], attrs: Mapping[str, Any]) -> Type:
        """The type of the result, which is row-major, however the arguments lie.

        Raises `ShapeError` for one that no array has.
        """
        result = self.infer(facts, *types, **attrs)
        for one in (result,) if isinstance(result, TensorType) else result:
            one.check_possible()
        if not types:  # a param, which may have strides
            return result
        return result.dense if isinstance(result, TensorType) else tuple(t.dense for t in result)

    @property
    def __signature__(self) -> inspect.Signature:
        """What ``help`` shows: the arguments by PyTorch's names, and the attributes."""
        least, _, allowed = takes(self)
        some, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(name, some) for name in self.names[:least]]
        return inspect.Signature(
            parameters + [inspect.Parameter(name, named) for name in sorted(allowed or ())]
        )

    def beside(self, other: Any, *args: Any, **attrs: Any) -> Any:
        """Apply the op in the mode of ``other``: for ops without tensor arguments."""
        return other.__sf_mode__.beside(self, other, args, attrs)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


class _OwnDoc:
    """What ``__doc__`` is: of an op what it computes, of the class the text of the class."""

    def __init__(self, of_class: str | None) -> None:
        self.of_class = of_class

    def __get__(self, op: Op | None, owner: type) -> str | None:
        return self.of_class if op is None else op.doc


type.__setattr__(Op, "__doc__", _OwnDoc(Op.__doc__))


def _how_to_wrap(args: Sequence[Any]) -> str:
    """What makes tensors of arguments, none of which is one."""
    if any(map(is_of_library, args)):
        return "take over another library's with sf.from_dlpack(...)"
    return "wrap data with sf.tensor(...) or sf.from_numpy(...)"


@functools.cache
def takes(op: Op) -> tuple[int, float, frozenset[str] | None]:
    """The least and the largest number of arguments of an op, and the names of its attributes
    (None: any), as its reference has them."""
    parameters = inspect.signature(op.reference).parameters.values()
    kinds = [p.kind for p in parameters]
    positional = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    least = max(positional - 1, 0)  # the first is the array module
    most = math.inf if inspect.Parameter.VAR_POSITIONAL in kinds else least
    attrs = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    return least, most, None if inspect.Parameter.VAR_KEYWORD in kinds else attrs
