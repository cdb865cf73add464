"""What a call of a jitted function keeps for its gradient: its products are computed once, what is
kept is given back, and the gradient is that of a call that keeps nothing."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.passes import row_blocks
from staticflow.static import kept_values

F = nn.functional


@pytest.fixture(autouse=True)
def keeps_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of the small functions here are kept, too."""
    monkeypatch.setattr(kept_values, "_LEAST", 0)


def keeping_of(function: Any) -> Any:
    """What a function that was called once with a gradient keeps."""
    ((kind,),) = function._traces.values()
    (call,) = kind.traced.recorded.values()
    (keeping,) = call.keeps.values()
    return keeping


def derivatives_of(function: Any) -> int:
    """How many gradients by the inputs alone were derived."""
    ((kind,),) = function._traces.values()
    return len(kind.traced.backward)


def products_in(programs: Any) -> int:
    (program,) = (program for _, program in programs.compiled)
    clusters = [n.attrs["kind"] for n in program.optimized.nodes if n.op.name == "cluster"]
    return clusters.count("contract")


def layers() -> Any:
    sf.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.Tanh())


def test_products_are_computed_once() -> None:
    model = layers()
    fast = sf.jit(model)
    x = sf.rand(7, 5)
    fast(x).sum().backward()
    keeping = keeping_of(fast)
    assert products_in(keeping.programs) == 2
    assert products_in(keeping.derived.programs) == 3  # of two weights and of one layer's input
    assert derivatives_of(fast) == 0
    assert fast.compile_count == 1


def test_what_follows_element_by_element_is_not_kept() -> None:
    w = sf.rand(5, 5, requires_grad=True)
    fast = sf.jit(lambda x: ((x @ w).exp().sin() * 2).tanh().cos())
    fast(sf.rand(3, 5)).sum().backward()
    assert len(keeping_of(fast).kept) == 1
    elements = sf.jit(lambda x: (x.exp() * w).sin())
    elements(sf.rand(5, 5)).sum().backward()
    assert keeping_of(elements) is None


def test_little_work_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sizes of the first call."""
    monkeypatch.undo()
    for rows, keeps in ((4, False), (4000, True)):
        model = layers()
        fast = sf.jit(model)
        fast(sf.rand(rows, 5)).sum().backward()
        assert (keeping_of(fast) is not None) is keeps


def several(x: Any, w: Any) -> Any:
    h = x @ w
    return h, (h * h).sum(1), h.sort(1)[0], h.argmax(1)


def with_loop(x: Any, w: Any) -> Any:
    return sf.scan(lambda c, row: ((c * row @ w).tanh(), c.sum()), x[0], x)


def attended(x: Any, w: Any) -> Any:
    q = (x @ w)[None]
    return ((q @ q.mT).softmax(-1) @ q).sum(0)


def normed(x: Any, w: Any) -> Any:
    return F.layer_norm(x @ w, (5,)) * F.softmax(x @ w, 0)


def dropped(x: Any, w: Any) -> Any:
    return F.dropout(F.dropout(x @ w, 0.4) @ w, 0.4) * sf.rand_like(x)


def of_late_sizes(x: Any, w: Any) -> Any:
    y = x @ w
    return (y[y > 0] ** 2).sum()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "several": several,
    "a loop": with_loop,
    "attention": attended,
    "norms": normed,
    "draws": dropped,
    "late sizes": of_late_sizes,
    "its own output": lambda x, w: (x @ w).sigmoid(),
    "an input": lambda x, w: (x.cumsum(0), x),
    "chosen": lambda x, w: sf.cond(x.sum() > 0, lambda: (x @ w).exp(), lambda: x @ w),
    "determinant": lambda x, w: (x[:5] @ w).det() * w.inverse(),
}  # fmt: skip


def total(results: Any, which: Callable[[int], bool]) -> Any:
    results = results if isinstance(results, tuple) else (results,)
    flat = [y for r in results for y in (r if isinstance(r, tuple) else (r,))]
    return sum(y.sin().sum() for i, y in enumerate(flat) if which(i) and y.dtype.is_floating)


@pytest.mark.parametrize("wanted", ["x", "w", "both"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_the_operations(name: str, wanted: str) -> None:
    """Of all results, then of the first alone, then of all again, and twice differentiated."""
    function = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    arrays = rng.uniform(-1, 1, (6, 5)), rng.uniform(-1, 1, (5, 5))
    fast = sf.jit(function)

    def run(call: Callable[..., Any], which: Callable[[int], bool], twice: bool) -> list[Any]:
        sf.manual_seed(3)
        x, w = (
            sf.tensor(a, requires_grad=wanted in (n, "both"))
            for n, a in zip("xw", arrays, strict=True)
        )
        leaves = [t for t in (x, w) if t.requires_grad]
        loss = total(call(x, w), which)
        grads = sf.autograd.grad(loss, leaves, create_graph=twice, allow_unused=True)
        grads = [g for g in grads if g is not None]
        if twice and any(g.requires_grad for g in grads):
            more = sum((g * g).sum() for g in grads)
            grads += [g for g in sf.autograd.grad(more, leaves, allow_unused=True) if g is not None]
        return [loss, *grads]

    every, first = (lambda i: True), (lambda i: i == 0)
    ways = [(every, False), (first, False), (first, False), (every, False), (every, True)]
    for which, twice in ways:
        if name == "an input" and wanted == "w":
            continue  # which nothing depends on
        for got, known in zip(run(fast, which, twice), run(function, which, twice), strict=True):
            np.testing.assert_allclose(got.detach(), known.detach(), rtol=1e-9, atol=1e-11)


def test_results_of_which_some_are_used_are_learned() -> None:
    w = sf.rand(5, 5, requires_grad=True)
    fast = sf.jit(lambda x: (x @ w, ((x @ w) @ w).exp()))
    for _ in range(3):
        fast(sf.rand(3, 5))[0].sum().backward()
    assert derivatives_of(fast) == 1  # of the first call, which kept values for both


def test_nothing_is_kept_where_it_was_of_no_use() -> None:
    w = sf.rand(5, 5, requires_grad=True)
    x = sf.rand(3, 5, requires_grad=True)
    fast = sf.jit(lambda x: ((x @ w).exp() @ w).sum())
    assert fast(x).grad_fn.attrs["keeping"] is not None
    for _ in range(2):  # of fewer operands than might be wanted
        sf.autograd.grad(fast(x), [x])
    assert fast(x).grad_fn.attrs["keeping"] is None
    fast(x).backward()
    assert fast(x).grad_fn.attrs["keeping"] is not None
    for _ in range(2):
        sf.autograd.grad(fast(x), [x, w], create_graph=True)
    assert fast(x).grad_fn.attrs["keeping"] is None


def test_a_checkpoint_keeps_the_arguments_alone() -> None:
    """The same when it computes again, though it is known by then which results were used."""
    w = sf.rand(5, 5, requires_grad=True)
    block = sf.jit(lambda x: ((x @ w).tanh(), (x @ w @ w).exp()))
    x = sf.rand(5, 5)

    def run(call: Callable[..., Any]) -> Any:
        w.grad, h = None, x
        for _ in range(3):
            h, _ = call(h)
        h.sum().backward()
        return w.grad

    known = run(lambda h: ((h @ w).tanh(), None))
    for _ in range(3):
        found = run(lambda h: sf.utils.checkpoint.checkpoint(block, h))
        np.testing.assert_allclose(found, known, rtol=1e-5)


def test_what_is_kept_is_free_after_backward() -> None:
    w = sf.rand(5, 5, requires_grad=True)
    fast = sf.jit(lambda x: ((x @ w).exp() @ w).sum())
    loss = fast(sf.rand(3, 5))
    kept = [weakref.ref(a.array) for a in loss.grad_fn.args[2:] if hasattr(a, "array")]
    arrays = len(loss.grad_fn.args)
    assert arrays > 2
    loss.backward(retain_graph=True)
    first = w.grad.clone()
    w.grad = None
    loss.backward()
    assert (w.grad == first).all()
    assert all(ref() is None for ref in kept)
    with pytest.raises(sf.AutogradError, match="retain_graph"):
        loss.backward()


def test_a_result_that_is_kept_must_not_change() -> None:
    w = sf.rand(5, 5, requires_grad=True)
    fast = sf.jit(lambda x: ((h := x @ w), (h * h).sum()))
    h, loss = fast(sf.rand(3, 5))
    with sf.no_grad():
        h.zero_()
    with pytest.raises(sf.AutogradError, match="changed in place"):
        loss.backward()


def test_python_is_asked_once() -> None:
    calls: list[str] = []

    class Twice(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            calls.append("backward")
            return ct * 2

    w = sf.rand(3, 3, requires_grad=True)
    fast = sf.jit(lambda x: Twice.apply(x @ w).sum())
    for _ in range(3):
        fast(sf.rand(2, 3)).backward()
    assert calls.count("backward") == 1


def test_a_gradient_that_there_is_not_is_refused_in_backward() -> None:
    w = sf.rand(3, 3, requires_grad=True)
    fast = sf.jit(lambda x: sf.linalg.qr(x @ w, mode="complete")[0].sum())
    loss = fast(sf.rand(5, 3))
    with pytest.raises(sf.AutogradError, match="has no gradient"):
        loss.backward()


WORDS = 4096


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("rows", [15, 64])
def test_scores_of_many_words_are_not_kept(
    dims: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they are made of is, where the loss is computed for a block of rows at a time."""
    monkeypatch.setattr(row_blocks, "_BLOCK", 4 * WORDS)
    sf.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, WORDS))
    x = sf.rand(rows, 5) if dims == 1 else sf.rand(rows // 5, 5, 5)
    words = sf.randint(0, WORDS, x.shape[:-1])

    def loss(x: Any, words: Any) -> Any:
        return F.cross_entropy(model(x).reshape(-1, WORDS), words.reshape(-1))

    loss(x, words).backward()
    expected = [p.grad.numpy() for p in model.parameters()]
    model.zero_grad()
    fast = sf.jit(loss)
    fast(x, words).backward()
    for p, e in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), e, rtol=1e-5, atol=1e-7)
    keeping = keeping_of(fast)
    sizes = [n for o in keeping.programs.outputs[1:] for n in o.shape[-1:]]
    assert 8 in sizes and (WORDS in sizes) == (rows == 15)
    blocks = [p.optimized.nodes for _, p in keeping.derived.programs.compiled]
    assert any(n.op.name == "scan" for nodes in blocks for n in nodes) == (rows == 64)
