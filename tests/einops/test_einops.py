"""Patterns of einops on tensors and symbols: of unknown sizes, with gradients, compiled."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("einops", reason="patterns are read by einops")

from einops import EinopsError, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack

import staticflow as sf
from staticflow.einops.layers import EinMix, Rearrange, Reduce

PATTERNS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "transposed": (lambda x: rearrange(x, "b c h w -> w h b c"), (2, 3, 4, 6)),
    "split": (lambda x: rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3), (2, 3, 4, 6)),
    "joined": (lambda x: rearrange(x, "b ... c -> (b c) ..."), (2, 3, 4, 5)),
    "by the first": (lambda x: rearrange(x, "(p h) w -> h (p w)", p=2), (6, 3)),
    "a list": (lambda x: rearrange([x, 2 * x], "k b c -> b (k c)"), (4, 3)),
    "unit axes": (lambda x: rearrange(x, "b c -> () b 1 c"), (4, 3)),
    "sum": (lambda x: reduce(x, "b h w -> b", "sum"), (2, 3, 4)),
    "mean": (lambda x: reduce(x, "b (h 2) (w 2) -> b h w", "mean"), (2, 4, 6)),
    "max": (lambda x: reduce(x, "b (h 2) w -> h b w", "max"), (2, 4, 6)),
    "min": (lambda x: reduce(x, "... w -> w", "min"), (2, 4, 6)),
    "prod": (lambda x: reduce(x, "b h w -> h", "prod"), (2, 4, 2)),
    "a function": (lambda x: reduce(x, "b h w -> h", lambda x, dims: x.logsumexp(dims)), (2, 4, 2)),
    "repeat": (lambda x: repeat(x, "h w -> (h 2) c (w n)", c=3, n=2), (2, 4)),
    "repeat by a size": (lambda x: repeat(x, "h w -> n h w", n=x.shape[0]), (2, 4)),
    "einsum": (lambda x: einsum(x, x, "b q d, b k d -> b q k"), (2, 4, 3)),
    "pack": (lambda x: pack([x, x.sum(-1)], "b *")[0], (2, 4, 3)),
    "unpack": (lambda x: unpack(*pack([x, x.sum(-1)], "b *"), "b *")[0], (2, 4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_modes_agree_and_gradients_are_right(name: str) -> None:
    fn, shape = PATTERNS[name]
    data = np.random.default_rng(0).standard_normal(shape)
    x = sf.tensor(data, requires_grad=True)
    value = fn(x)
    weights = sf.tensor(np.random.default_rng(1).standard_normal(value.shape))
    (value * weights).sum().backward()
    assert sf.autograd.gradcheck(fn, [x])
    s, w = sf.placeholder((None,) * len(shape), "float64"), sf.placeholder(value.shape, "float64")
    out = fn(s)
    program = sf.compile([s, w], [out, sf.grad((out * w).sum(), s)])
    for got, expected in zip(program(data, weights), (value, x.grad), strict=True):
        assert sf.allclose(got, expected)
    assert sf.allclose(sf.jit(fn)(x.detach()), value)


def test_a_program_is_for_all_sizes_that_the_pattern_divides() -> None:
    x = sf.placeholder(("T", 3), name="x")
    f = sf.compile([x], rearrange(x, "(t k) c -> t (k c)", k=4))
    for t in (0, 4, 20):
        data = np.arange(3.0 * t, dtype=np.float32).reshape(t, 3)
        assert np.array_equal(f(data).numpy(), rearrange(data, "(t k) c -> t (k c)", k=4))
    with pytest.raises(sf.ShapeError, match=r"T is 6 .*at .*test_einops\.py"):
        f(np.zeros((6, 3), np.float32))


def test_sizes_are_those_of_the_graph() -> None:
    x = sf.placeholder(("T", 3), name="x")
    sizes = parse_shape(x, "t _")
    assert sizes == {"t": x.shape[0]}
    y = rearrange(sf.placeholder((None, 2), name="y"), "(t k) c -> t k c", **sizes)
    assert y.shape[0] == x.shape[0]


def test_wrong_patterns_are_einops_errors() -> None:
    with pytest.raises(EinopsError, match=r"expects 3 dims|Wrong shape"):
        rearrange(sf.ones(2, 3), "a b c -> c b a")
    with pytest.raises(EinopsError, match="can't divide axis of length 3"):
        rearrange(sf.ones(3), "(a b) -> a b", a=2)


def test_views_are_views() -> None:
    x = sf.zeros(2, 6)
    rearrange(x, "a (b c) -> c b a", c=3)[0, 0, 0] = 1
    assert x[0, 0] == 1


def test_layers() -> None:
    sf.manual_seed(0)
    model = sf.nn.Sequential(
        Reduce("b c (h 2) (w 2) -> b c h w", "max"),
        Rearrange("b c h w -> b (h w) c"),
        EinMix("b t (g c) -> b t (g d)", "g c d", "g d", g=2, c=2, d=5),
        sf.nn.Linear(10, 1),
    )
    assert [n for n, _ in model.named_parameters()] == ["2.weight", "2.bias", "3.weight", "3.bias"]
    assert "Rearrange('b c h w -> b (h w) c')" in repr(model)
    x = sf.randn(3, 4, 4, 6)
    s = sf.placeholder((None, 4, None, None), name="s")
    step = sf.compile([s], [model(s), *sf.grad(model(s).sum(), [*model.parameters()])])
    got = step(x)
    model(x).sum().backward()
    for a, b in zip(got, [model(x), *(p.grad for p in model.parameters())], strict=True):
        assert sf.allclose(a, b, atol=1e-5)
    again = pickle.loads(pickle.dumps(model[1]))
    assert sf.equal(again(x), model[1](x))


@pytest.mark.parametrize(
    ("layer", "shape", "said"),
    [
        (
            Rearrange("b c -> c b"),
            (2, 3, 4),
            r"Rearrange: .*\[2, 3, 4\] has 3 dims, .* is of 2, at ",
        ),
        (
            Reduce("a b ... -> a", "sum"),
            (2,),
            r"Reduce: .*\[2\] has 1 dims, .* is of 2 or more, at ",
        ),
        (Rearrange("(b k) -> b k", k=2), (3,), r"Rearrange\(.*shape \[3\]: .*chunks of 2, at "),
    ],
)
def test_layers_say_what_does_not_fit(layer: Any, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises((sf.ShapeError, EinopsError), match=said + ".*test_einops"):
        layer(sf.ones(*shape))


@pytest.mark.parametrize(
    "imports",
    [
        "from einops import rearrange; import staticflow as sf",
        "import staticflow as sf; import staticflow.einops; from einops import rearrange",
        "import staticflow as sf; from einops import rearrange; import staticflow.einops",
        "import staticflow.einops.layers; from einops import rearrange; import staticflow as sf",
    ],
)
def test_orders_of_imports(imports: str) -> None:
    program = f"{imports}; print(rearrange(sf.ones(2, 3), 'a b -> b a').shape)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "(3, 2)\n", run.stderr


def test_where_einops_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; sys.modules['einops'] = None; import staticflow.einops"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 'staticflow.einops needs einops; pip install "staticflow[einops]"' in run.stderr
