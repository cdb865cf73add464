"""Random programs: symbols that are combined by ops of every form, in sizes A and B, known or not.

Numbers stay of moderate size. What tells numbers apart (comparisons, integer casts) only looks at
*exact* values, which every way to run a program gives bit by bit. A program is decided by the
`random.Random` that it is drawn with; what a body of a loop draws, by a seed of its own, so that
it is the same however often it is traced.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np

import staticflow as sf
from staticflow.errors import DimRangeError, IndexRangeError, ShapeError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import bool_, float64, int64
from staticflow.graph.node import Node
from staticflow.nn import functional as F
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "SIZES", "Drawn", "Step", "arrays_for", "draw_program", "draw_step", "programs", "sizes",
]  # fmt: skip

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


@dataclass(frozen=True)
class Step:
    """A program that updates variables."""

    inputs: list[Symbol]
    outputs: list[Symbol]
    updates: list[tuple[sf.Tensor, Symbol]]


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
SMOOTH = tuple(UNARY[i] for i in (0, 2, 3, 4, 7, 11, 12, 14, 15, 16, 17, 18))
"""Those that have no kink, for dtypes in which rounding finds one."""
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
WHOLE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y * 3,
    lambda x, y: x * y,
    lambda x, y: x // (y.abs() + 2),
    lambda x, y: x % (y.abs() + 2),
    lambda x, y: (x & y) | 1,
    lambda x, y: -x,
    lambda x, y: sf.where(x > y, x, y * 2),
    lambda x, y: sf.maximum(x, y),
)
"""Of integers, which wrap."""


def is_real(v: Symbol) -> bool:
    return v.dtype.is_floating


def is_whole(v: Symbol) -> bool:
    return not v.dtype.is_floating and v.dtype is not bool_


class _Maker:
    """The values so far, and how to draw another. ``exact`` are nodes whose bits are known,
    ``indices`` integers that are mostly in range; loops are drawn down to ``depth``."""

    def __init__(
        self,
        chance: random.Random,
        values: Sequence[Symbol],
        exact: set[Node],
        sizes: Sequence[Any],
        reals: Sequence[str],
        depth: int = 2,
    ) -> None:
        self.chance, self.reals = chance, reals
        self.values = list(values)
        self.exact = exact
        self.sizes = sizes
        self.depth = depth
        self.indices = [v for v in values if v.dtype is int64]

    def inside(self, seed: int, values: Sequence[Symbol]) -> _Maker:
        """The maker of a body that is drawn by a seed."""
        return _Maker(random.Random(seed), values, set(), self.sizes, self.reals, self.depth - 1)

    def pick(self, fits: Callable[[Symbol], bool]) -> Symbol | None:
        """A value that fits, the later ones more often, so that chains are long."""
        found = [v for v in self.values if fits(v)]
        if not found:
            return None
        return found[max(self.chance.randrange(len(found)) for _ in range(2))]

    def real(self, least: int = 0) -> Symbol | None:
        return self.pick(lambda v: is_real(v) and v.ndim >= least)

    def dim(self, x: Symbol) -> int:
        return self.chance.randrange(x.ndim)

    def choice(self, *options: Any) -> Any:
        return self.chance.choice(options)

    def some(self, forms: Sequence[Any], most: int) -> list[Any]:
        return [self.chance.choice(forms) for _ in range(self.chance.randint(0, most))]

    def seed(self) -> int:
        return self.chance.getrandbits(32)

    def step(self, forms: Sequence[Callable[[_Maker], Any]]) -> None:
        """Another value, if the form that is drawn finds operands, and has a result of them: some
        have none of a literal size."""
        try:
            result = self.choice(*forms)(self)
        except (ShapeError, IndexRangeError, DimRangeError):
            return
        if isinstance(result, Symbol):
            self.values.append(result)


# -- forms of steps ------------------------------------------------------------------------------


def _unary(m: _Maker) -> Any:
    x = m.real()
    return None if x is None else m.choice(*(UNARY if x.dtype.itemsize > 2 else SMOOTH))(x)


def _meets(x: Symbol, y: Symbol) -> bool:
    """Whether two shapes broadcast without an assumption."""
    pairs = zip(reversed(x.__sf_shape__), reversed(y.__sf_shape__), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def _partner(m: _Maker, x: Symbol) -> Symbol | None:
    return m.pick(lambda v: is_real(v) and _meets(v, x))


def _binary(m: _Maker) -> Any:
    x = m.real()
    y = None if x is None else _partner(m, x)
    return None if y is None else m.choice(*BINARY)(x, y)


def _whole(m: _Maker) -> Any:
    """Integers of integers."""
    x = m.pick(lambda v: v.node in m.exact and is_whole(v))
    if x is None:
        return None
    y = m.pick(lambda v: v.node in m.exact and v.dtype is x.dtype and _meets(v, x))
    found = m.choice(*WHOLE)(x, y)
    m.exact.add(found.node)
    return found


def _round(m: _Maker) -> Any:
    """A float, or an exact integer, in another dtype of its kind."""
    x = m.pick(lambda v: is_real(v) or (is_whole(v) and v.node in m.exact))
    if x is None:
        return None
    kinds = m.reals if is_real(x) else ("int32", "int64", "int8", "uint8")
    found = x.to(m.choice(*kinds))
    if x.node in m.exact and not is_real(x):
        m.exact.add(found.node)
    return found


def _assuming(m: _Maker) -> Any:
    """Two values of any sizes, which must turn out the same."""
    x = m.real(1)
    y = None if x is None else m.pick(lambda v: is_real(v) and v.ndim == x.ndim)
    return None if y is None else x * 0.5 + y


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
    y = None if x is None else m.pick(lambda v: _meets(v, x) and _meets(v, c) and is_real(v))
    return None if y is None else sf.where(c, x, y)


def _cast(m: _Maker) -> Any:
    x = m.pick(lambda v: not is_real(v))
    if x is None:
        return None
    return (x if x.dtype is bool_ else x % 7).to(m.reals[0])  # large integers have no sine


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


def _along(m: _Maker) -> Any:
    """What has an order along a dim."""
    x = m.real(1)
    if x is None:
        return None
    return m.choice(lambda d: (x * 0.5).cumsum(d), lambda d: x.flip(d), lambda d: x.roll(1, d),
                    lambda d: x.tanh().cumprod(d))(m.dim(x))  # fmt: skip


def _view(m: _Maker) -> Any:
    x = m.pick(lambda v: True)
    if x is None:
        return None
    found = m.choice(*VIEWS)(m, x)
    if isinstance(found, Symbol) and x.node in m.exact:
        m.exact.add(found.node)
    return found


def _permute(m: _Maker, x: Symbol) -> Any:
    return x.permute(m.chance.sample(range(x.ndim), x.ndim)) if x.ndim else None


def _merge(m: _Maker, x: Symbol) -> Any:
    return x.flatten(m.dim(x)) if x.ndim else x.reshape(1)


def _unsqueeze(m: _Maker, x: Symbol) -> Any:
    return x.unsqueeze(m.chance.randint(0, x.ndim)) if x.ndim < 4 else None


def _expand(m: _Maker, x: Symbol) -> Any:
    if x.ndim > 3:
        return None
    stretched = [m.choice(3, *m.sizes) if d == 1 else d for d in x.__sf_shape__]
    return x.expand((m.choice(2, m.sizes[0]), *stretched) if m.choice(True, False) else stretched)


def _key(m: _Maker, x: Symbol) -> tuple[Any, ...]:
    keys: list[Any] = [slice(None)] * x.ndim
    keys[m.dim(x)] = m.choice(slice(1, None), slice(None, -1), slice(None, None, 2), slice(0, 2),
                              slice(-2, None), 0, -1)  # fmt: skip
    return tuple(keys)


def _slice(m: _Maker, x: Symbol) -> Any:
    if not x.ndim:
        return None
    return x[_key(m, x)]


VIEWS = (_permute, _merge, _unsqueeze, _expand, _slice)


def _in_place(m: _Maker) -> Any:
    """A clone that is changed, perhaps by way of a view of it, and the view afterwards."""
    x, z = m.real(), m.real()
    if x is None or z is None:
        return None
    y = x.clone()
    part = y[_key(m, y)] if y.ndim and m.choice(True, False) else y
    factor = z.tanh().mean().to(x.dtype)
    m.choice(
        lambda: part.mul_(0.5), lambda: part.add_(factor), lambda: part.sin_(),
        lambda: part.fill_(0.25), lambda: part.copy_(factor), lambda: part.mul_(part),
        lambda: part.sub_(y.tanh().sum() * 0.1),
    )()  # fmt: skip
    m.values.append(part)
    return y


def _matmul(m: _Maker) -> Any:
    x = m.real(2)
    y = None if x is None else m.pick(
        lambda v: v.dtype is x.dtype and v.ndim >= 2 and x.__sf_shape__[-1] in v.__sf_shape__[-2:]
    )  # fmt: skip
    if y is None:
        return None
    y = y if y.__sf_shape__[-2] == x.__sf_shape__[-1] else y.mT
    pairs = zip(reversed(x.__sf_shape__[:-2]), reversed(y.__sf_shape__[:-2]), strict=False)
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return None
    return x.tanh() @ y.tanh()


def _gather(m: _Maker) -> Any:
    index = m.pick(lambda v: v.ndim > 0 and any(v is i for i in m.indices))
    if index is None:
        return None
    dim = m.dim(index)
    x = m.pick(
        lambda v: is_real(v) and v.ndim == index.ndim
        and all(a == b for i, (a, b) in enumerate(zip(v.__sf_shape__, index.__sf_shape__, strict=True)) if i != dim)
    )  # fmt: skip
    return None if x is None else sf.gather(x, dim, index)


def _cat(m: _Maker) -> Any:
    x = m.real(1)
    if x is None:
        return None
    dim = m.dim(x)
    y = m.pick(
        lambda v: v.dtype is x.dtype and v.ndim == x.ndim
        and all(a == b for i, (a, b) in enumerate(zip(v.__sf_shape__, x.__sf_shape__, strict=True)) if i != dim)
    )  # fmt: skip
    return sf.cat([x, y], dim)


def _number(m: _Maker) -> Any:
    """A number, an array, or a size as values of the graph."""
    x = m.real()
    if x is None:
        return None
    size = m.choice(m.sizes[0], m.sizes[1] + 1)
    array = np.array([0.5, -1.0, 2.0])
    return m.choice(lambda: x * 0.25, lambda: x + array.reshape((3,) + (1,) * x.ndim),
                    lambda: x / (size + 1), lambda: sf.zeros_like(x))()  # fmt: skip


def _random(m: _Maker) -> Any:
    """Numbers of the generator."""
    x = m.real()
    if x is None:
        return None
    return m.choice(lambda: F.dropout(x, 0.25), lambda: x + sf.rand_like(x).detach())()


# -- loops ---------------------------------------------------------------------------------------


def _drawn(m: _Maker, x: Any, outer: Any, forms: Sequence[Any], seed: int) -> Any:
    """What a drawn function makes of ``x``: of its shape and dtype."""
    inner = m.inside(seed, [x, outer])
    for form in forms:
        inner.step([form])
    last = inner.pick(is_real) if inner.chance.random() < 0.3 else inner.values[-1]
    same = inner.pick(lambda v: v.dtype is x.dtype and v.__sf_shape__ == x.__sf_shape__)
    assert same is not None
    last = last if is_real(last) else x
    return inner.choice(
        lambda: same, lambda: (same + x).tanh(), lambda: x * 0.5 + last.mean().to(x.dtype)
    )()


def _scan(m: _Maker) -> Any:
    """A loop whose body is drawn too, with what it captures from around."""
    xs, init, outer = m.real(1), m.real(), m.real()
    if not m.depth or xs is None or init is None or outer is None or init.ndim > 2:
        return None
    forms, seed = m.some(INNER, 3), m.seed()

    def body(carry: Any, x: Any) -> Any:
        inner = m.inside(seed, [carry, x, outer])
        for form in forms:
            inner.step([form])
        last = inner.pick(is_real)
        changed = inner.pick(
            lambda v: v.dtype is carry.dtype and v.__sf_shape__ == carry.__sf_shape__
        )
        new = inner.choice(
            lambda: changed, lambda: carry * 0.5 + last.mean().to(carry.dtype),
            lambda: (changed + carry).tanh(),
        )()  # fmt: skip
        return new, inner.choice(inner.values[-1], x, changed)

    if m.choice(True, True, False):
        checkpoint = m.choice(None, None, "sqrt")
        carry, ys = sf.scan(body, init, xs, reverse=m.choice(True, False), checkpoint=checkpoint)
    else:  # how many ys there are depends on values
        carry, ys = sf.scan(body, init, xs, until=lambda c, y: c.sum() > 0.5)
        ys = (ys * 1.0).sum(0) if ys.dtype is not bool_ else ys.any(0)
    m.values.append(carry)
    return ys


def _while(m: _Maker) -> Any:
    """A loop of which nobody knows how often it runs, with another carry that counts."""
    init, outer = m.real(), m.real()
    if not m.depth or init is None or outer is None or init.ndim > 2:
        return None
    forms, seed = m.some(INNER, 3), m.seed()
    limit = m.choice(lambda: 2, lambda: (outer > 0).sum() - 1)()
    return sf.while_loop(
        lambda i, h: (i < limit) & (i < 3),
        lambda i, h: (i + 1, _drawn(m, h, outer, forms, seed)),
        (0, init),
    )[1]


def _cond(m: _Maker) -> Any:
    """A branch between two drawn functions."""
    x, outer = m.real(), m.real()
    if not m.depth or x is None or outer is None:
        return None
    ways = [(m.some(INNER, 2), m.seed()) for _ in range(2)]
    fns = [lambda v, w=w: _drawn(m, v, outer, *w) for w in ways]
    return sf.cond(outer.sum() > 0, *fns, x)


SIMPLE = (_unary, _unary, _binary, _binary, _reduce, _view, _number, _where)
INNER = (*SIMPLE, _matmul, _softmax, _along, _in_place, _scan, _while, _cond)
FORMS = (
    *SIMPLE, _view, _assuming, _test, _test, _where, _cast, _any, _softmax, _matmul, _matmul, _gather,
    _gather, _cat, _scan, _while, _cond, _whole, _whole, _round, _along, _in_place, _in_place,
)  # fmt: skip


# -- programs ------------------------------------------------------------------------------------


def draw_sizes(chance: random.Random) -> list[Any]:
    """What A and B are in a program: unknown mostly, else numbers."""
    if chance.random() < 0.7:
        return [Dim.of(A), Dim.of(B)]
    return [chance.choice(SIZES), chance.choice(SIZES)]


def draw_inputs(chance: random.Random, sizes: Sequence[Any], reals: Sequence[str]) -> list[Symbol]:
    def placeholder(shape: Sequence[Any], dtype: str, name: str) -> Symbol:
        known = {
            letter: letter if isinstance(size, Dim) else size
            for letter, size in zip("AB", sizes, strict=True)
        }
        return sf.placeholder(tuple(known.get(d, d) for d in shape), dtype, name)

    inputs = [
        placeholder(("A", 3), chance.choice(reals), "x"), placeholder(("B",), chance.choice(reals), "y"),
    ]  # fmt: skip
    for number in range(chance.randint(0, 3)):
        dtype = chance.choice([*reals[:1], "int64", "bool", "int32", "uint8"])
        inputs.append(placeholder(chance.choice(SHAPES), dtype, f"z{number}"))
    return inputs


REALS = (
    *[["float64"]] * 5, ["float32"], ["float32"], ["float64", "float32"], ["float32", "bfloat16"],
    ["float16"],
)  # fmt: skip


def draw_program(chance: random.Random, reals: Sequence[str] = (), draws: bool = True) -> Drawn:
    """A program, with sizes A and B that its first two inputs have, of floats of the dtypes
    ``reals`` (none: by chance); with ``draws``, perhaps one that takes numbers of the generator."""
    own = draw_sizes(chance)
    reals = reals or chance.choice(REALS)
    inputs = draw_inputs(chance, own, reals)
    m = _Maker(chance, inputs, {x.node for x in inputs}, own, reals)
    forms = (*FORMS, _random) if draws and chance.random() < 0.2 else FORMS
    for _ in range(chance.randint(4, 16)):
        m.step(forms)
    made = m.values[len(inputs) :] or m.values
    outputs = [chance.choice(made) for _ in range(chance.randint(1, 4))]
    return Drawn(inputs, [*outputs, m.values[-1]])


def draw_step(chance: random.Random) -> Step:
    """Variables of a few shapes, new values for some of them, and outputs among what was there
    before and what comes after."""
    own = draw_sizes(chance)
    inputs = draw_inputs(chance, own, ["float64"])[:2]
    rng = np.random.default_rng(chance.randint(0, 99))
    variables = [sf.variable(rng.normal(size=s)) for s in ((3,), (3,), (2, 3), (3, 3), (), ())]
    old = [sf.symbol(v) for v in variables]
    m = _Maker(chance, [*inputs, *old], set(), own, ["float64"])
    for _ in range(chance.randint(1, 8)):
        m.step((*SIMPLE, _view, _matmul, _cat, _scan, _while, _cond, _in_place))
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
    return Step(inputs, [chance.choice(m.values) for _ in range(chance.randint(0, 3))], updates)


def programs() -> st.SearchStrategy[Drawn]:
    """Programs of float64, of unknown sizes and of known ones, with gradients."""
    return st.integers(0, 2**32).map(_with_gradients)


def _with_gradients(seed: int) -> Drawn:
    chance = random.Random(seed)
    drawn = draw_program(chance, ["float64"], draws=False)
    loss = sum((y.tanh().sum() for y in drawn.outputs if is_real(y)), drawn.inputs[0].sum())
    found = sf.grad(loss, drawn.inputs, allow_unused=True) if chance.random() < 0.5 else []
    return Drawn(drawn.inputs, [*drawn.outputs, *(g for g in found if g is not None)])
