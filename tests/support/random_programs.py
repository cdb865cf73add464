"""Random programs: symbols that are combined by ops of every form, with sizes A and B unknown.

Their floats are float64 and stay of moderate size. What tells numbers apart (comparisons, integer
casts) only looks at *exact* values, which every way to run a program gives bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np

import staticflow as sf
from staticflow.errors import StaticflowError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import DType, bool_, float64, int64
from staticflow.graph.node import Node
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["Drawn", "Step", "arrays_for", "programs", "sizes", "steps"]

A, B = Sym("A"), Sym("B")
SIZES = (3, 5, 2, 17, 1, 0)
SHAPES = (
    ("A", 3), ("B",), ("A",), ("A", "B"), ("A", 1), ("B", 3), (), (1, "B"), (3,), ("A", 3, "B"),
)  # fmt: skip
sizes = st.fixed_dictionaries({A: st.sampled_from(SIZES), B: st.sampled_from(SIZES)})


@dataclass(frozen=True)
class Drawn:
    """A program: its inputs and outputs."""

    inputs: list[Symbol]
    outputs: list[Symbol]

    def __repr__(self) -> str:
        from staticflow.graph.graph import close

        return f"\n{close([x.node for x in self.inputs], [y.node for y in self.outputs])}"


def arrays_for(program: Drawn | Step, sizes: dict[Sym, int], seed: int) -> list[np.ndarray]:
    """Arguments of a program: numbers around 0, or indices that are mostly in range."""
    rng = np.random.default_rng(seed)
    arrays = []
    for x in program.inputs:
        shape = [evaluate_dim(d, sizes) for d in x.shape]
        if x.dtype is float64:
            arrays.append(rng.normal(size=shape))
        else:
            arrays.append(rng.integers(0, 2, shape).astype(x.dtype.numpy))
    return arrays


UNARY: tuple[Callable[[Any], Any], ...] = (
    lambda x: -x,
    lambda x: x.abs(),
    lambda x: x.sin(),
    lambda x: x.tanh(),
    lambda x: x.sigmoid(),
    lambda x: x.relu(),
    lambda x: x.clamp(-0.5, 0.75),
    lambda x: x.erf(),
    lambda x: (-x.abs()).exp(),
    lambda x: (x.abs() + 0.5).log(),
    lambda x: (x.abs() + 1).log(),
    lambda x: (x * x + 1).sqrt(),
    lambda x: (x * x + 0.5).rsqrt(),
    lambda x: 1 / (x.abs() + 1),
    lambda x: (x.tanh()) ** 2,
    lambda x: x.tanh() ** 3,
    lambda x: x * 1,
    lambda x: x + 0.0,
    lambda x: x.tanh().exp() - 1,
    lambda x: x.detach(),
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x.tanh() * y.tanh(),
    lambda x, y: x / (y.abs() + 1),
    sf.maximum,
    sf.minimum,
    lambda x, y: x - -y,
)
TESTS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x < y,
    lambda x, y: x >= y,
    lambda x, y: x == y,
)


class _Maker:
    """The values so far, and how to draw another. ``outer`` are values of the graph around."""

    def __init__(self, draw: st.DrawFn, values: Sequence[Symbol], exact: set[Node]) -> None:
        self.draw = draw
        self.values = list(values)
        self.exact = exact

    def pick(self, fits: Callable[[Symbol], bool]) -> Symbol | None:
        found = [v for v in self.values if fits(v)]
        return self.draw(st.sampled_from(found)) if found else None

    def real(self, least: int = 0) -> Symbol | None:
        return self.pick(lambda v: v.dtype is float64 and v.ndim >= least)

    def dim(self, x: Symbol) -> int:
        return self.draw(st.integers(0, x.ndim - 1))

    def choice(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def step(self, forms: Sequence[Callable[[_Maker], Any]]) -> None:
        """Another value, if the form that is drawn finds operands."""
        result = self.choice(*forms)(self)
        if isinstance(result, Symbol):
            self.values.append(result)


# -- forms of steps ------------------------------------------------------------------------------


def _unary(m: _Maker) -> Any:
    x = m.real()
    return None if x is None else m.choice(*UNARY)(x)


def _meets(x: Symbol, y: Symbol) -> bool:
    """Whether two shapes broadcast without an assumption."""
    pairs = zip(reversed(x.__sf_shape__), reversed(y.__sf_shape__), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def _partner(m: _Maker, x: Symbol, dtype: DType = float64) -> Symbol | None:
    return m.pick(lambda v: v.dtype is dtype and _meets(v, x))


def _binary(m: _Maker) -> Any:
    x = m.real()
    y = None if x is None else _partner(m, x)
    return None if y is None else m.choice(*BINARY)(x, y)


def _assuming(m: _Maker) -> Any:
    """Two values of any sizes, which must turn out the same."""
    x = m.real(1)
    y = None if x is None else m.pick(lambda v: v.dtype is float64 and v.ndim == x.ndim)
    try:
        return None if y is None else x * 0.5 + y
    except StaticflowError:
        return None


def _test(m: _Maker) -> Any:
    x = m.pick(lambda v: v.node in m.exact and v.dtype is not bool_)
    if x is None:
        return None
    y = m.pick(lambda v: v.node in m.exact and v.dtype is x.dtype and _meets(v, x))
    found = m.choice(*TESTS)(x, y)
    m.exact.add(found.node)
    return found


def _where(m: _Maker) -> Any:
    c = m.pick(lambda v: v.dtype is bool_)
    x = None if c is None else _partner(m, c)
    y = (
        None
        if x is None
        else m.pick(lambda v: _meets(v, x) and _meets(v, c) and v.dtype is float64)
    )
    return None if y is None else sf.where(c, x, y)


def _cast(m: _Maker) -> Any:
    x = m.pick(lambda v: v.dtype is not float64)
    return None if x is None else x.double()


def _reduce(m: _Maker) -> Any:
    x = m.real(1)
    if x is None:
        return None
    dims = tuple(d for d in range(x.ndim) if m.choice(True, False)) or (m.dim(x),)
    keep = m.choice(True, False)
    kind = m.choice("sum", "mean", "amax", "logsumexp")
    if kind == "amax":
        return sf.amax(x, dims, keep)
    if kind == "logsumexp":
        return x.logsumexp(dims, keep)
    return getattr(x, kind)(dims, keep)


def _any(m: _Maker) -> Any:
    x = m.pick(lambda v: v.dtype is bool_ and v.ndim > 0)
    if x is None:
        return None
    found = m.choice(sf.all, sf.any)(x, m.dim(x), m.choice(True, False))
    m.exact.add(found.node)
    return found


def _softmax(m: _Maker) -> Any:
    x = m.real(1)
    if x is None:
        return None
    return m.choice(lambda d: x.softmax(d), lambda d: x.log_softmax(d),
                    lambda d: x.softmax(d).log())(m.dim(x))  # fmt: skip


def _view(m: _Maker) -> Any:
    x = m.pick(lambda v: True)
    if x is None:
        return None
    found = m.choice(*VIEWS)(m, x)
    if isinstance(found, Symbol) and x.node in m.exact:
        m.exact.add(found.node)
    return found


def _permute(m: _Maker, x: Symbol) -> Any:
    return x.permute(m.draw(st.permutations(range(x.ndim)))) if x.ndim else None


def _merge(m: _Maker, x: Symbol) -> Any:
    return x.flatten(m.dim(x)) if x.ndim else x.reshape(1)


def _unsqueeze(m: _Maker, x: Symbol) -> Any:
    return x.unsqueeze(m.draw(st.integers(0, x.ndim))) if x.ndim < 4 else None


def _expand(m: _Maker, x: Symbol) -> Any:
    if x.ndim > 3:
        return None
    stretched = [m.choice(3, Dim.of(A), Dim.of(B)) if d == 1 else d for d in x.__sf_shape__]
    return x.expand((m.choice(2, Dim.of(A)), *stretched) if m.choice(True, False) else stretched)


def _slice(m: _Maker, x: Symbol) -> Any:
    if not x.ndim:
        return None
    dim, keys = m.dim(x), [slice(None)] * x.ndim
    keys[dim] = m.choice(slice(1, None), slice(None, -1), slice(None, None, 2), slice(0, 2),
                         slice(-2, None), 0, -1)  # fmt: skip
    try:
        return x[tuple(keys)]
    except StaticflowError:
        return None  # a literal size that has no such element


VIEWS = (_permute, _merge, _unsqueeze, _expand, _slice)


def _matmul(m: _Maker) -> Any:
    x = m.real(2)
    y = None if x is None else m.pick(
        lambda v: v.dtype is float64 and v.ndim >= 2 and x.__sf_shape__[-1] in v.__sf_shape__[-2:]
    )  # fmt: skip
    if y is None:
        return None
    y = y if y.__sf_shape__[-2] == x.__sf_shape__[-1] else y.mT
    pairs = zip(reversed(x.__sf_shape__[:-2]), reversed(y.__sf_shape__[:-2]), strict=False)
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return None
    return x.tanh() @ y.tanh()


def _gather(m: _Maker) -> Any:
    index = m.pick(lambda v: v.dtype is int64 and v.ndim > 0)
    if index is None:
        return None
    dim = m.dim(index)
    x = m.pick(
        lambda v: v.dtype is float64 and v.ndim == index.ndim
        and all(a == b for i, (a, b) in enumerate(zip(v.__sf_shape__, index.__sf_shape__, strict=True)) if i != dim)
    )  # fmt: skip
    return None if x is None else sf.gather(x, dim, index)


def _cat(m: _Maker) -> Any:
    x = m.real(1)
    if x is None:
        return None
    dim = m.dim(x)
    y = m.pick(
        lambda v: v.dtype is float64 and v.ndim == x.ndim
        and all(a == b for i, (a, b) in enumerate(zip(v.__sf_shape__, x.__sf_shape__, strict=True)) if i != dim)
    )  # fmt: skip
    return sf.cat([x, y], dim)


def _number(m: _Maker) -> Any:
    """A number, an array, or a size as values of the graph."""
    x = m.real()
    if x is None:
        return None
    size = m.choice(Dim.of(A), Dim.of(B) + 1)
    array = np.array([0.5, -1.0, 2.0])
    return m.choice(lambda: x * 0.25, lambda: x + array.reshape((3,) + (1,) * x.ndim),
                    lambda: x / (size + 1), lambda: sf.zeros_like(x))()  # fmt: skip


def _scan(m: _Maker) -> Any:
    """A loop whose body is drawn too, with what it captures from around."""
    xs, init, outer = m.real(1), m.real(), m.real()
    if xs is None or init is None or outer is None or init.ndim > 2:
        return None
    steps = m.draw(st.lists(st.sampled_from(INNER), max_size=3))

    def body(carry: Any, x: Any) -> Any:
        inner = _Maker(m.draw, [carry, x, outer], set())
        for form in steps:
            inner.step([form])
        last = inner.values[-1]
        changed = inner.pick(lambda v: v.dtype is float64 and v.__sf_shape__ == carry.__sf_shape__)
        assert changed is not None
        carry = m.choice(
            lambda: changed, lambda: carry * 0.5 + last.mean(), lambda: (changed + carry).tanh()
        )()
        return carry, m.choice(last, x, changed)

    if m.choice(True, True, False):
        carry, ys = sf.scan(body, init, xs, reverse=m.choice(True, False))
    else:  # how many ys there are depends on values
        carry, ys = sf.scan(body, init, xs, until=lambda c, y: c.sum() > 0.5)
        ys = (ys * 1.0).sum(0) if ys.dtype is not bool_ else ys.any(0)
    m.values.append(carry)
    return ys


def _drawn(m: _Maker, x: Any, outer: Any, forms: Sequence[Any]) -> Any:
    """What a drawn function makes of ``x``: of its shape and dtype."""
    inner = _Maker(m.draw, [x, outer], set())
    for form in forms:
        inner.step([form])
    last = inner.values[-1]
    same = inner.pick(lambda v: v.dtype is float64 and v.__sf_shape__ == x.__sf_shape__)
    assert same is not None
    return m.choice(lambda: same, lambda: (same + x).tanh(), lambda: x * 0.5 + last.mean())()


def _while(m: _Maker) -> Any:
    """A loop of which nobody knows how often it runs, with another carry that counts."""
    init, outer = m.real(), m.real()
    if init is None or outer is None or init.ndim > 2:
        return None
    forms = m.draw(st.lists(st.sampled_from(INNER), max_size=3))
    limit = m.choice(lambda: 2, lambda: (outer > 0).sum() - 1)()
    return sf.while_loop(
        lambda i, h: (i < limit) & (i < 3),
        lambda i, h: (i + 1, _drawn(m, h, outer, forms)),
        (0, init),
    )[1]


def _cond(m: _Maker) -> Any:
    """A branch between two drawn functions."""
    x, outer = m.real(), m.real()
    if x is None or outer is None:
        return None
    forms = [m.draw(st.lists(st.sampled_from(INNER), max_size=2)) for _ in range(2)]
    fns = [lambda v, f=f: _drawn(m, v, outer, f) for f in forms]
    return sf.cond(outer.sum() > 0, *fns, x)


SIMPLE = (_unary, _unary, _binary, _binary, _reduce, _view, _number, _where)
INNER = (*SIMPLE, _matmul, _softmax)
FORMS = (
    *SIMPLE, _view, _assuming, _test, _test, _where, _cast, _any, _softmax, _matmul, _matmul, _gather,
    _gather, _cat, _scan, _while, _cond,
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> Drawn:
    """A program, with unknown sizes A and B that its first two inputs have."""
    inputs = [sf.placeholder(("A", 3), "float64", "x"), sf.placeholder(("B",), "float64", "y")]
    for number in range(draw(st.integers(0, 3))):
        dtype = draw(st.sampled_from(["float64", "int64", "bool"]))
        inputs.append(sf.placeholder(draw(st.sampled_from(SHAPES)), dtype, f"z{number}"))
    m = _Maker(draw, inputs, {x.node for x in inputs})
    for _ in range(draw(st.integers(3, 12))):
        m.step(FORMS)
    outputs = draw(st.lists(st.sampled_from(m.values), min_size=1, max_size=3))
    outputs.append(m.values[-1])
    if draw(st.booleans()):
        loss = sum((y.tanh().sum() for y in outputs if y.dtype is float64), inputs[0].sum())
        outputs += [g for g in sf.grad(loss, inputs, allow_unused=True) if g is not None]
    return Drawn(inputs, outputs)


@dataclass(frozen=True)
class Step:
    """A program that updates variables."""

    inputs: list[Symbol]
    outputs: list[Symbol]
    updates: list[tuple[sf.Tensor, Symbol]]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Variables of a few shapes, new values for some of them, and outputs among what was there
    before and what comes after."""
    inputs = [sf.placeholder(("A", 3), "float64", "x"), sf.placeholder(("B",), "float64", "y")]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    variables = [sf.variable(rng.normal(size=s)) for s in ((3,), (3,), (2, 3), (3, 3), (), ())]
    old = [sf.symbol(v) for v in variables]
    m = _Maker(draw, [*inputs, *old], set())
    for _ in range(draw(st.integers(1, 8))):
        m.step((*SIMPLE, _view, _matmul, _cat, _scan, _while, _cond))
    updates = []
    for variable, before in zip(variables, old, strict=True):
        fits = [v for v in m.values if v.dtype is float64 and v.__sf_shape__ == before.__sf_shape__]
        square = variable.shape == (3, 3)
        kind = m.choice("keep", "known", "ring", "mixed", *["turned", "product"] * square)
        if kind == "known":
            updates.append((variable, m.choice(*reversed(fits))))
        elif kind == "turned":
            updates.append((variable, before.T * 0.5 + before))
        elif kind == "product":
            updates.append((variable, before.tanh() @ before))
        elif kind != "keep":
            other = m.choice(*old) if kind == "ring" else m.real()
            updates.append((variable, before * 0.5 + other.tanh().sum()))
    m.values += [new for _, new in updates]
    return Step(inputs, draw(st.lists(st.sampled_from(m.values), max_size=3)), updates)
