"""Products that are functions of the matrix product, against NumPy, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ShapeError
from staticflow.ops.matrices.contract import matmul_op

EINSUMS = (
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,ca", (2, 3), (4, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iji->j", (3, 2, 3)),
    ("iii->i", (2, 2, 2)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i", (3,), (3,)),
    (",ij", (), (2, 3)),
    (" i j , j -> i ", (2, 3), (3,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...ij,...jk", (6, 3, 4), (4, 2)),
    ("i...->...", (2, 3, 4)),
    ("...i->...", (2, 3, 4)),
    ("...,...", (2, 3), (3,)),
    ("i...i->...", (3, 2, 3)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,ik->i", (2, 3), (2, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,jk,kl", (7, 3), (3, 2), (2, 9)),
    ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)),
    ("ij,i,j->", (2, 3), (2,), (3,)),
    ("ij,jk->ik", (0, 3), (3, 4)),
    ("ij,jk->ik", (2, 0), (0, 4)),
    ("aB,Bc->ac", (2, 3), (3, 2)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("a,b,c,d,e,f,g,h,a->bdfh", *[(2,)] * 9),
)  # fmt: skip


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(7)
    return [np.asarray(rng.standard_normal(s)) for s in shapes]


def check(fn: Callable[..., Any], xs: list[Any], wanted: Any) -> None:
    """Eagerly, compiled with unknown sizes, and the gradients of both."""
    given = [sf.tensor(x, requires_grad=True) for x in xs]
    out = fn(*given)
    np.testing.assert_allclose(out.detach().numpy(), wanted, 1e-12, 1e-12)
    sizes = [tuple(None if n != 1 else 1 for n in x.shape) for x in xs]
    symbols = [sf.placeholder(s, "float64", name=f"x{i}") for i, s in enumerate(sizes)]
    result = fn(*symbols)
    program = sf.compile(symbols, [result, *sf.grad(result.sum(), symbols)])
    value, *gradients = program(*xs)
    np.testing.assert_allclose(value.numpy(), wanted, 1e-12, 1e-12)
    out.sum().backward()
    for t, g in zip(given, gradients, strict=True):
        np.testing.assert_allclose(g.numpy(), t.grad.numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize(("equation", "shapes"), [(e, s) for e, *s in EINSUMS])
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    xs = arrays(*shapes)
    stretched = (
        np.einsum(equation, *(np.asarray(x) for x in xs))
        if (equation != "ij,jk->ik" or shapes[0][1] != 1)
        else np.einsum("ij,jk->ik", np.repeat(xs[0], 3, 1), xs[1])
    )
    check(lambda *ts: sf.einsum(equation, *ts), xs, stretched)


@pytest.mark.parametrize(
    ("equation", "shapes", "says"),
    [
        ("ij,jk", [(2, 3)], "names 2 operands, 1 are given"),
        ("ij", [(2, 3, 4)], "'ij' does not fit operand 0, of shape [2, 3, 4]"),
        ("ijk", [(2, 3)], "does not fit operand 0"),
        ("i1", [(2, 3)], "'1' is no letter"),
        ("ij->ii", [(2, 3)], "names it twice"),
        ("ij->k", [(2, 3)], "no operand has it"),
        ("ij,jk", [(2, 3), (4, 5)], "the dim 'j' has the sizes 3 and 4"),
    ],
)
def test_einsum_refuses(equation: str, shapes: list[Any], says: str) -> None:
    with pytest.raises(ShapeError) as caught:
        sf.einsum(equation, *(sf.ones(*s) for s in shapes))
    assert says in str(caught.value) and "test_products.py" in str(caught.value)


def products_in(fn: Callable[..., Any], *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes of the matrix products that a function of symbols makes."""
    xs = [sf.placeholder(s, "float64") for s in shapes]
    graph = sf.compile(xs, fn(*xs)).graph
    return [n.type.shape for n in graph.nodes if n.op is matmul_op]


def test_the_cheapest_order() -> None:
    """(2 x 100) (100 x 3) (3 x 50): from the left 1200 multiplications, from the right 25000."""
    left = products_in(lambda *x: sf.einsum("ij,jk,kl", *x), (2, 100), (100, 3), (3, 50))
    assert left == [(2, 3), (2, 50)]
    right = products_in(lambda *x: sf.multi_dot(x), (50, 3), (3, 100), (100, 2))
    assert right == [(3, 2), (50, 2)]


FUNCTIONS: tuple[tuple[str, Callable[..., Any], Callable[..., Any], list[Any]], ...] = (
    ("mv", sf.mv, np.matmul, [(2, 3), (3,)]),
    ("vdot", sf.vdot, np.dot, [(3,), (3,)]),
    ("outer", sf.outer, np.outer, [(2,), (3,)]),
    ("inner", sf.inner, np.inner, [(2, 3), (4, 3)]),
    ("inner 1", sf.inner, np.inner, [(3,), (4, 2, 3)]),
    ("inner 0", sf.inner, np.inner, [(), (2, 3)]),
    ("kron", sf.kron, np.kron, [(2, 3), (4, 5)]),
    ("kron ranks", sf.kron, np.kron, [(2,), (3, 4)]),
    ("kron ranks", sf.kron, np.kron, [(2, 3, 2), (4,)]),
    ("kron 0", sf.kron, np.kron, [(), (4,)]),
    ("cross", lambda x, y: sf.cross(x, y, dim=-1), np.cross, [(2, 3), (2, 3)]),
    ("cross broadcast", lambda x, y: sf.cross(x, y, dim=-1), np.cross, [(4, 1, 3), (2, 3)]),
    ("tensordot", sf.tensordot, np.tensordot, [(2, 3, 4), (3, 4, 5)]),
    ("tensordot 0", lambda x, y: sf.tensordot(x, y, 0), lambda x, y: np.tensordot(x, y, 0), [(2,), (3, 4)]),
    (
        "tensordot dims", lambda x, y: sf.tensordot(x, y, ([0, 2], [-1, 0])),
        lambda x, y: np.tensordot(x, y, ([0, 2], [2, 0])), [(2, 3, 4), (4, 5, 2)],
    ),
    ("addmv", lambda c, x, y: sf.addmv(c, x, y, beta=2, alpha=3), lambda c, x, y: 2 * c + 3 * (x @ y), [(2,), (2, 3), (3,)]),
    ("addbmm", lambda c, x, y: sf.addbmm(c, x, y, beta=2), lambda c, x, y: 2 * c + (x @ y).sum(0), [(2, 4), (5, 2, 3), (5, 3, 4)]),
    ("addr", lambda c, x, y: sf.addr(c, x, y, alpha=2), lambda c, x, y: c + 2 * np.outer(x, y), [(2, 3), (2,), (3,)]),
    ("multi_dot", lambda *x: sf.multi_dot(x), lambda *x: np.linalg.multi_dot(x), [(2,), (2, 3), (3, 4), (4,)]),
    ("chain_matmul", sf.chain_matmul, lambda x, y, z: x @ y @ z, [(2, 3), (3, 4), (4, 2)]),
    (
        "bilinear", sf.nn.functional.bilinear, lambda x, y, w, b: np.einsum("ni,oij,nj->no", x, w, y) + b,
        [(5, 2), (5, 3), (4, 2, 3), (4,)],
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("fn", "expect", "shapes"), [row[1:] for row in FUNCTIONS], ids=[row[0] for row in FUNCTIONS]
)
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_functions(fn: Any, expect: Any, shapes: list[Any]) -> None:
    xs = arrays(*shapes)
    if fn is FUNCTIONS[10][1]:
        xs = [np.asarray(x) for x in xs]
    check(fn, xs, expect(*xs))


REFUSED: tuple[tuple[Callable[[], Any], str], ...] = (
    (
        lambda: sf.mv(sf.ones(2), sf.ones(2)),
        "mv: an operand has the shape [2]; it must have 2 dims",
    ),
    (
        lambda: sf.cross(sf.ones(2), sf.ones(2)),
        "cross: the size of dim -1 of shape [2]: 2 and 3 differ",
    ),
    (lambda: sf.tensordot(sf.ones(2), sf.ones(3), 2), "tensordot: 2 dims of tensors"),
    (lambda: sf.tensordot(sf.ones(2), sf.ones(3), 1), "have the sizes 2 and 3"),
    (lambda: sf.tensordot(sf.ones(2, 2), sf.ones(2), ([0, 1], [0])), "do not pair up"),
    (lambda: sf.multi_dot([sf.ones(2, 2)]), "at least two tensors"),
    (
        lambda: sf.multi_dot([sf.ones(2, 2), sf.ones(2), sf.ones(2, 2)]),
        "tensor 1 has the shape [2]",
    ),
)


@pytest.mark.parametrize(("run", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_refusals(run: Callable[[], Any], says: str) -> None:
    with pytest.raises(ShapeError) as caught:
        run()
    assert says in str(caught.value) and "test_products.py" in str(caught.value)


def test_beta_0_does_not_read() -> None:
    nan = sf.full((2, 2), float("nan"))
    for fn in (sf.addmm, lambda *a, **k: sf.addr(a[0], a[1][0], a[2][0], **k)):
        assert np.isfinite(fn(nan, sf.ones(2, 2), sf.ones(2, 2), beta=0).numpy()).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_sums_of_16_bits(dtype: str) -> None:
    """Sums of more terms than the dtype can count, in both modes."""
    ones = sf.ones(2, 20000, dtype=dtype) * 0.5
    x = sf.placeholder((None, None), dtype)
    fns = [
        lambda v: v @ v.T, lambda v: sf.einsum("ij,kj->ik", v, v), lambda v: v.mean(1),
        lambda v: v.norm(dim=1), lambda v: v.cumsum(1)[:, -1], lambda v: v.logsumexp(1),
        lambda v: v.softmax(1).sum(1), lambda v: (v - 0.5).var(1),
    ]  # fmt: skip
    program = sf.compile([x], [fn(x) for fn in fns])
    for fn, result in zip(fns, program(ones), strict=True):
        wanted = fn(ones.double()).numpy()
        for actual in (result, fn(ones)):
            found = actual.double().numpy()
            np.testing.assert_allclose(found, wanted, 1e-2, 1e-2)


@pytest.mark.parametrize("dtype", ["float16", "int32", "float32"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 3), (2, 1)])
def test_a_view_of_what_is_fused_behind_a_row_or_column(m: int, n: int, dtype: str) -> None:
    """Dims of one are read at 0 by views, so that is where the product has to give them."""
    x, y = sf.placeholder((m, 4), dtype, name="x"), sf.placeholder((4, n), dtype, name="y")
    program = sf.compile([x, y], [(x @ y + 1).reshape(-1), (x @ y * 2).t()])
    flat, turned = program(np.ones((m, 4), dtype), np.ones((4, n), dtype))
    assert flat.tolist() == [5] * (m * n)
    assert turned.tolist() == [[8] * m] * n


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "baddbmm", "addbmm"])
def test_integers_by_a_fraction_are_a_float(name: str) -> None:
    shapes = {
        "addmm": ((2, 3), (3, 4)), "addmv": ((2, 3), (3,)), "addr": ((2,), (4,)),
        "baddbmm": ((2, 2, 3), (2, 3, 4)), "addbmm": ((2, 2, 3), (2, 3, 4)),
    }  # fmt: skip
    given = [sf.tensor(7), *(sf.ones(s, dtype=sf.int64) for s in shapes[name])]

    def scaled(*args: Any) -> Any:
        fn = getattr(sf, name)
        return fn(*args, beta=0.5, alpha=0.25), fn(*args, beta=2, alpha=1)

    halves, whole = scaled(*(x.double() for x in given))
    for run in (scaled, sf.jit(scaled)):
        by_half, by_whole = run(*given)
        assert (by_half.dtype, by_whole.dtype) == (sf.float32, sf.int64)
        assert by_half.tolist() == halves.tolist()
        assert by_whole.tolist() == whole.tolist()
