"""Random numbers: known answers, one stream for both modes, distributions, generators."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from opinfo.random import threefry

import staticflow as sf
from staticflow.eager import kernels
from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.ops import OPS
from staticflow.runtime.once import compiling

FLOATS = (sf.float16, sf.bfloat16, sf.float32, sf.float64)
by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def generator(seed: int = 7) -> sf.Generator:
    return sf.Generator().manual_seed(seed)


def word(low: int, high: int) -> int:
    return (high << 32 | low) - (1 << 64 if high >> 31 else 0)


# -- the cipher -----------------------------------------------------------------------------------

# The known answers of Random123 (kat_vectors, threefry2x32 20): counter, key, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def test_threefry_gives_the_known_answers() -> None:
    counters, keys, results = (
        np.array([word(*w) for w in column]) for column in zip(*KNOWN, strict=True)
    )
    assert [
        threefry(int(k), int(c)) for k, c in zip(keys, counters, strict=True)
    ] == results.tolist()
    op = OPS["threefry"]
    assert op.reference(np, keys, counters).tolist() == results.tolist()
    k, c = sf.placeholder((None,), "int64", name="k"), sf.placeholder((None,), "int64", name="c")
    assert sf.compile([k, c], op(k, c))(keys, counters).tolist() == results.tolist()


# -- one stream -----------------------------------------------------------------------------------

DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "rand": lambda n, g: sf.rand(n, 3, generator=g),
    "rand_float64": lambda n, g: sf.rand(n, dtype="float64", generator=g),
    "rand_float16": lambda n, g: sf.rand((n, 2), dtype="float16", generator=g),
    "randint": lambda n, g: sf.randint(-5, 17, (n, 4), generator=g),
    "randint_int8": lambda n, g: sf.randint(100, (n,), dtype="int8", generator=g),
    "randperm": lambda n, g: sf.randperm(n, generator=g),
    "bernoulli": lambda n, g: sf.bernoulli(sf.rand(n, 3, generator=g), generator=g),
    "multinomial": lambda n, g: sf.multinomial(sf.rand(n, 5, generator=g), 3, generator=g),
    "replaced": lambda n, g: sf.multinomial(sf.rand(n, 5, generator=g), 9, True, generator=g),
}  # fmt: skip
NORMAL: dict[str, Callable[[Any, Any], Any]] = {
    "randn": lambda n, g: sf.randn(n, 3, generator=g),
    "randn_float64": lambda n, g: sf.randn(n, dtype="float64", generator=g),
    "normal": lambda n, g: sf.normal(sf.randn(n, generator=g), 2.0, generator=g),
}


def compiled(draw: Callable[[Any, Any], Any], g: sf.Generator) -> Callable[[int], Any]:
    """A program of a size that is known only when it runs."""
    x = sf.placeholder((None,), name="x")
    program = sf.compile([x], draw(x.shape[0], g))
    return lambda n: program(sf.zeros(n))


@pytest.mark.parametrize("name", [*DRAWS, *NORMAL])
def test_both_modes_draw_the_same(name: str) -> None:
    """Bit for bit, except that the normal numbers may differ in their last places."""
    draw = {**DRAWS, **NORMAL}[name]
    g, h = generator(), generator()
    program = compiled(draw, h)
    for n in (4, 1, 0, 70):
        eager, static = draw(n, g).numpy(), program(n).numpy()
        assert (eager.dtype, eager.shape) == (static.dtype, static.shape)
        if name in DRAWS:
            np.testing.assert_array_equal(eager, static)
        else:
            np.testing.assert_allclose(eager, static, 8 * np.finfo(eager.dtype).eps)
    assert g.get_state().tolist() == h.get_state().tolist()


def test_a_stream_goes_on_from_mode_to_mode() -> None:
    g = generator()
    wanted = [sf.rand(3, generator=g).tolist() for _ in range(4)]
    g.manual_seed(7)
    program = compiled(lambda n, g: sf.rand(n, generator=g), g)
    found = [
        draw(3).tolist() for draw in (program, lambda n: sf.rand(n, generator=g), program, program)
    ]
    assert found == wanted


def test_draws_of_one_program_differ() -> None:
    x = sf.placeholder((5,), name="x")
    program = sf.compile([x], [sf.rand_like(x), sf.rand_like(x)])
    first, second = program(sf.zeros(5))
    assert first.tolist() != second.tolist()
    assert program(sf.zeros(5))[0].tolist() not in (first.tolist(), second.tolist())


def test_a_jitted_function_draws_anew() -> None:
    @sf.jit
    def noisy(x: Any) -> Any:
        return x + sf.rand(3)

    sf.manual_seed(0)
    calls = [noisy(sf.zeros(3)).tolist() for _ in range(2)]
    sf.manual_seed(0)
    assert calls == [sf.rand(3).tolist() for _ in range(2)]


def test_each_iteration_of_a_loop_draws_anew() -> None:
    def walk(xs: Any, g: sf.Generator) -> Any:
        def step(c: Any, x: Any) -> Any:
            new = c + sf.rand(2, generator=g) * x
            return new, new

        return sf.scan(step, sf.zeros(2), xs)[1]

    xs, g, h = sf.placeholder((None,), name="xs"), generator(), generator()
    program = sf.compile([xs], walk(xs, g))
    for n in (3, 0, 5):
        ones = sf.ones(n)
        np.testing.assert_allclose(program(ones).numpy(), walk(ones, h).numpy(), 1e-6)
    assert g.get_state().tolist() == h.get_state().tolist()


# -- distributions --------------------------------------------------------------------------------


def chi_square(counts: Any, chances: Any) -> float:
    """How many standard deviations Pearson's statistic lies from its mean."""
    counts, chances = np.asarray(counts, float), np.asarray(chances, float)
    expected = counts.sum() * chances / chances.sum()
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom))


@by_float
def test_uniform_numbers(dtype: DType) -> None:
    x = sf.rand(100_000, dtype=dtype, generator=generator()).numpy().astype(np.float64)
    assert 0 <= x.min() < 0.01 and 0.99 < x.max() < 1
    assert abs(chi_square(np.histogram(x, 128, (0, 1))[0], np.ones(128))) < 4
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 0.01


def test_float64_draws_use_all_of_their_bits() -> None:
    x = sf.rand(100, dtype="float64", generator=generator()).numpy()
    assert (x.astype(np.float32) != x).any() and ((x * 2**53) % 2 == 1).any()


@by_float
def test_normal_numbers(dtype: DType) -> None:
    x = sf.randn(200_000, dtype=dtype, generator=generator()).numpy().astype(np.float64)
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01
    assert abs((x**3).mean()) < 0.04 and abs((x**4).mean() - 3) < 0.1
    edges = np.array([-np.inf, *np.linspace(-3, 3, 25), np.inf])
    below = np.array([0.5 * math.erfc(-e / math.sqrt(2)) for e in edges])
    if dtype in (sf.float32, sf.float64):  # of others whole places lie on one side of an edge
        assert abs(chi_square(np.histogram(x, edges)[0], np.diff(below))) < 4


def test_random_integers() -> None:
    x = sf.randint(-3, 14, (50_000,), generator=generator())
    assert x.dtype is sf.int64 and (x.min().item(), x.max().item()) == (-3, 13)
    assert abs(chi_square(np.bincount(x.numpy() + 3), np.ones(17))) < 4
    wide = sf.randint(2**62, 2**63 - 1, (100,), generator=generator())
    assert wide.min().item() >= 2**62


def test_permutations() -> None:
    counts = np.zeros((4, 4))
    g = generator()
    for _ in range(2000):
        order = sf.randperm(4, generator=g).numpy()
        assert sorted(order) == [0, 1, 2, 3]
        counts[np.arange(4), order] += 1
    assert abs(counts - 500).max() < 100
    assert sf.randperm(0).shape == (0,) and sf.randperm(3, dtype="int32").dtype is sf.int32


def test_samples_follow_their_weights() -> None:
    weights = sf.tensor([1.0, 0.0, 3.0, 4.0])
    many = sf.multinomial(weights, 40_000, replacement=True, generator=generator())
    counts = np.bincount(many.numpy(), minlength=4)
    assert counts[1] == 0 and abs(chi_square(counts[[0, 2, 3]], [1, 3, 4])) < 4
    rows = sf.multinomial(weights.expand(20_000, 4), 3, generator=generator()).numpy()
    assert all(sorted(row) == [0, 2, 3] for row in rows[:100])
    assert abs(chi_square(np.bincount(rows[:, 0])[[0, 2, 3]], [1, 3, 4])) < 4


def test_chances() -> None:
    x = sf.full((50_000,), 0.3)
    ones = sf.bernoulli(x, generator=generator())
    assert ones.dtype is sf.float32 and abs(ones.mean().item() - 0.3) < 0.01
    assert set(ones.tolist()) == {0.0, 1.0}
    assert sf.bernoulli(sf.tensor([0.0, 1.0])).tolist() == [0, 1]
    assert sf.zeros(3).bernoulli(1.0).tolist() == [1, 1, 1]


def test_in_place_forms() -> None:
    x, g = sf.empty(50_000), generator()
    assert x.uniform_(2, 5, generator=g) is x
    assert x.min().item() >= 2 and x.max().item() < 5 and abs(x.mean().item() - 3.5) < 0.02
    x.normal_(3, 2, generator=g)
    assert abs(x.mean().item() - 3) < 0.05 and abs(x.std().item() - 2) < 0.05
    x.exponential_(4, generator=g)
    assert x.min().item() > 0 and abs(x.mean().item() - 0.25) < 0.01
    x.bernoulli_(0.25, generator=g)
    assert abs(x.mean().item() - 0.25) < 0.01
    x.random_(3, generator=g)
    assert set(x.tolist()) == {0, 1, 2}
    assert set(sf.empty(200).random_(5, 7, generator=g).tolist()) == {5, 6}
    small = sf.zeros(5000, dtype="uint8").random_(generator=g)
    assert small.min().item() == 0 and small.max().item() == 255
    assert set(sf.zeros(50, dtype="bool").random_(generator=g).tolist()) == {True, False}
    assert sf.zeros(50, dtype="int64").random_(generator=g).max().item() > 2**60


# -- dropout --------------------------------------------------------------------------------------


def test_dropout_scales_what_it_keeps() -> None:
    x = sf.ones(50_000, requires_grad=True)
    y = sf.dropout(x, 0.2)
    assert set(np.unique(y.detach().numpy())) == {0.0, np.float32(1.25)}
    assert abs(y.detach().mean().item() - 1) < 0.02
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == y.tolist()


def test_dropout_at_its_ends() -> None:
    x = sf.tensor([1.0, -2.0])
    assert sf.dropout(x, 0.0).tolist() == x.tolist() and sf.dropout(x, 1.0).tolist() == [0, 0]
    assert sf.dropout(x, 0.5, training=False) is x
    assert sf.dropout(x, 1.0, inplace=True) is x and x.tolist() == [0, 0]
    for p in (-0.1, 1.5):
        with pytest.raises(ArgumentError, match=rf"from 0 to 1, not {p}.*test_random\.py:\d+"):
            sf.dropout(x, p)


def test_a_compiled_gradient_goes_where_dropout_let_through() -> None:
    x = sf.placeholder((None,), name="x")
    y = sf.dropout(x, 0.5)
    program = sf.compile([x], [y, sf.grad((y * y).sum(), x)])
    values, slope = program(sf.arange(1.0, 101.0))
    np.testing.assert_allclose(slope.numpy(), values.numpy() * 4)
    assert 0 < (values.numpy() == 0).sum() < 100


# -- generators -----------------------------------------------------------------------------------


def test_seeds() -> None:
    g = generator(5)
    assert g.initial_seed() == 5 and "seed=5 count=0" in repr(g)
    assert generator(2**64 - 1).initial_seed() == 2**64 - 1
    first = sf.rand(3, generator=g).tolist()
    assert sf.rand(3, generator=g).tolist() != first
    assert sf.rand(3, generator=g.manual_seed(5)).tolist() == first
    assert g.seed() == g.initial_seed() != generator().seed()
    assert sf.manual_seed(3) is sf.default_generator and sf.initial_seed() == 3
    assert sf.seed() == sf.initial_seed()


def test_states_are_kept_and_restored() -> None:
    g = generator()
    sf.rand(2, generator=g)
    state = g.get_state()
    wanted = sf.rand(2, generator=g).tolist()
    g.set_state(state)
    assert sf.rand(2, generator=g).tolist() == wanted
    before = sf.get_rng_state()
    drawn = sf.rand(2).tolist()
    sf.set_rng_state(before)
    with sf.fork_rng():
        assert sf.rand(2).tolist() == drawn
    assert sf.rand(2).tolist() == drawn
    with pytest.raises(
        DTypeError, match=r"2 elements, not float32 of shape \[3\].*test_random\.py"
    ):
        g.set_state(sf.zeros(3))


def test_generators_can_be_copied_and_pickled() -> None:
    g = generator()
    sf.rand(2, generator=g)
    for other in (copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert other.get_state().tolist() == g.get_state().tolist()
        before = g.get_state()
        assert sf.rand(3, generator=other).tolist() == sf.rand(3, generator=g).tolist()
        g.set_state(before)


def test_threads_share_one_generator() -> None:
    g, found = generator(), []

    def draw() -> None:
        found.extend(sf.rand(2, generator=g).tolist()[0] for _ in range(50))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    h = generator()
    assert sorted(found) == sorted(sf.rand(2, generator=h).tolist()[0] for _ in range(200))


def test_options_of_the_draws() -> None:
    assert sf.rand(2, requires_grad=True).requires_grad
    assert sf.rand(2, 3, device="cpu").shape == sf.rand((2, 3)).shape == (2, 3)
    assert sf.rand(()).shape == sf.rand().shape == ()
    x = sf.zeros(2, 3, dtype="float64")
    assert sf.randn_like(x).dtype is sf.float64 and sf.rand_like(x, dtype="float32").shape == (2, 3)
    assert sf.randint_like(x, 1, 4).dtype is sf.float64
    assert sf.normal(0.0, 1.0, (2, 2)).shape == (2, 2)
    assert sf.normal(sf.zeros(3), sf.ones(2, 1)).shape == (2, 3)


def test_what_draws_refuse() -> None:
    with pytest.raises(DTypeError, match=r"int64.*randint.*test_random\.py:\d+"):
        sf.rand(2, dtype="int64")
    with pytest.raises(ArgumentError, match=r"from 3 to before 3: there are none.*test_random\.py"):
        sf.randint(3, 3, (2,))
    with pytest.raises(ArgumentError, match=r"must not be negative, not -1.*test_random\.py:\d+"):
        sf.normal(0.0, -1.0, (2,))
    with pytest.raises(ArgumentError, match=r"normal_: .*not -1.*test_random\.py:\d+"):
        sf.zeros(2).normal_(0.0, -1.0)
    with pytest.raises(ArgumentError, match=r"bernoulli: .*not 1\.5.*test_random\.py:\d+"):
        sf.zeros(2).bernoulli_(1.5)
    with pytest.raises(ArgumentError, match=r"exponential_: .*not 0.*test_random\.py:\d+"):
        sf.zeros(2).exponential_(0)
    with pytest.raises(ArgumentError, match=r"uniform_: .*2 and 1.*test_random\.py:\d+"):
        sf.zeros(2).uniform_(2, 1)
    with pytest.raises(ArgumentError, match=r"size= is needed.*test_random\.py:\d+"):
        sf.normal(0.0, 1.0)
    with pytest.raises(ArgumentError, match=r"3 samples without replacement of 2.*test_random\.py"):
        sf.multinomial(sf.ones(2), 3)
    with pytest.raises(ShapeError, match=r"int64 of shape \[2\].*test_random\.py:\d+"):
        sf.multinomial(sf.tensor([1, 2]), 1)
    for row in ([1.0, -1.0], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]):
        with pytest.raises(ArgumentError, match=r"must not be negative.*test_random\.py:\d+"):
            sf.multinomial(sf.tensor([[1.0, 1.0], row]), 1)


def test_a_new_shape_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sf.randn(2), sf.randint(9, (2,)), sf.nn.functional.dropout(sf.ones(2))

    def refused(*_: Any) -> Any:
        raise AssertionError("compiled")

    monkeypatch.setattr(kernels, "compile_function", refused)
    for shape in ((3,), (2, 3), (4, 1, 2), (0, 5)):
        drawn = sf.randn(shape, generator=sf.Generator().manual_seed(1))
        whole = sf.randn(drawn.numel(), generator=sf.Generator().manual_seed(1))
        assert drawn.shape == shape and drawn.reshape(-1).tolist() == whole.tolist()
        assert sf.randint(9, shape).shape == sf.nn.functional.dropout(sf.ones(shape)).shape == shape


def test_what_is_drawn_like_lies_in_row_major_order() -> None:
    x = sf.zeros(3, 2)
    g = sf.Generator()
    straight = sf.rand_like(x.t().contiguous(), generator=g.manual_seed(3))
    assert sf.rand_like(x.t(), generator=g.manual_seed(3)).tolist() == straight.tolist()


def test_a_state_that_is_set_may_compile_while_another_thread_does() -> None:
    """Draws and compilations have one lock: of two, each thread would hold one."""
    generator = sf.Generator()
    compiles, sets = threading.Event(), threading.Event()

    class State:
        _data, _version = np.zeros(2, np.int64), 0

        def copy_(self, other: Any) -> None:
            sets.set()
            with compiling:  # as a change does whose program is not made yet
                pass

    generator.state = State()

    def compile_and_ask() -> None:
        with compiling:
            compiles.set()
            sets.wait(0.1)
            generator.position()

    def set_state() -> None:
        compiles.wait()
        generator.set_state(sf.tensor([1, 2]))

    threads = [threading.Thread(target=t, daemon=True) for t in (compile_and_ask, set_state)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_a_draw_in_the_shape_of_what_has_a_gradient_has_none() -> None:
    x, w = sf.placeholder((None, 2), name="x"), sf.ones(2, requires_grad=True)
    for draw in (sf.randn_like, sf.rand_like, lambda like: sf.normal(like, 1.0)):
        scaled = x * w
        y = (scaled * draw(scaled).detach()).sum()
        sf.manual_seed(0)
        total, gradient = sf.compile([x], [y, sf.grad(y, w)])(sf.ones(3, 2))
        assert gradient.sum().item() == pytest.approx(total.item(), rel=1e-5)  # linear in w
        direct = (scaled * draw(scaled)).sum()
        sf.compile([x], sf.grad(direct, w))(sf.ones(3, 2))
