"""Arguments that PyTorch's functions take give what they give there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason="what the arguments do is said by PyTorch")

RNG = np.random.default_rng(20)
X, Y, W = RNG.standard_normal((3, 4, 3))
TABLE = RNG.standard_normal((6, 3))
INDICES = np.array([[1, 2, 1], [4, 4, 1]])


def both(run: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What ``run`` gives of PyTorch and of us."""
    return run(torch), run(sf)


def leaf(library: Any, values: Any) -> Any:
    return library.tensor(values, dtype=library.float64, requires_grad=True)


# -- losses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_losses_take_weights_of_elements(name: str, reduction: str) -> None:
    def run(library: Any) -> list[Any]:
        x, y, w = (leaf(library, v) for v in (X, Y, W))
        loss = getattr(library.nn.functional, name)(x, y, reduction=reduction, weight=w)
        loss.sum().backward()
        return [loss.tolist(), *(t.grad.tolist() for t in (x, y, w))]

    theirs, ours = both(run)
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(a, b, 1e-12)
    x = sf.placeholder((None, 3), "float64", name="x")
    loss = getattr(sf.nn.functional, name)(
        x, sf.tensor(Y), reduction=reduction, weight=sf.tensor(W)
    )
    np.testing.assert_allclose(sf.compile([x], loss)(X).tolist(), theirs[0], 1e-12)


def test_weights_of_another_shape_are_refused_by_both() -> None:
    for library in (torch, sf):
        x = library.tensor(X)
        with pytest.raises(ValueError, match=r"same size|mse_loss: the weight has shape \[3\]"):
            library.nn.functional.mse_loss(x, x, weight=x[0])


# -- embeddings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("padding_idx", [None, 1])
def test_gradients_of_rows_are_scaled_by_their_frequency(padding_idx: int | None) -> None:
    def run(library: Any) -> Any:
        layer = library.nn.Embedding(6, 3, padding_idx, None, 2.0, True, False)
        layer.weight = library.nn.Parameter(library.tensor(TABLE))
        found = layer(library.tensor(INDICES))
        (found**2).sum().backward()
        return found.tolist(), layer.weight.grad.tolist()

    theirs, ours = both(run)
    np.testing.assert_allclose(ours[0], theirs[0], 1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], 1e-12)


def test_options_of_embeddings_are_those_of_pytorch() -> None:
    def run(library: Any) -> Any:
        table, indices = library.tensor(TABLE), library.tensor(INDICES)
        layers = library.nn.Embedding, library.nn.EmbeddingBag
        plain, bag = (layer.from_pretrained(table.clone(), max_norm=0.5) for layer in layers)
        bags = library.nn.EmbeddingBag(6, 3, 0.5, 1.0, False, "sum", False, table.clone(), True, 2)
        offsets = library.tensor([0, 2, 6])
        return [
            [layer(indices).tolist(), layer.weight.tolist(), layer.weight.requires_grad]
            for layer in (plain, bag)
        ] + [bags(indices.reshape(-1), offsets).tolist(), repr(plain), bags.weight.requires_grad]

    theirs, ours = both(run)
    for a, b in zip(theirs[:2], ours[:2], strict=True):
        assert a[2] is b[2]
        np.testing.assert_allclose(a[0], b[0], 1e-6)
        np.testing.assert_allclose(a[1], b[1], 1e-6)
    np.testing.assert_allclose(theirs[2], ours[2], 1e-6)
    assert theirs[3:] == ours[3:]


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_divide_by_the_frequency_of_each_row(mode: str) -> None:
    """PyTorch's gradient takes the frequency of another row where indices come again; where each comes
    as often it is that of the row."""

    def run(library: Any, indices: Any) -> Any:
        w = leaf(library, TABLE)
        options = {"mode": mode, "scale_grad_by_freq": True}
        bags = library.nn.functional.embedding_bag(library.tensor(indices), w, **options)
        (bags**2).sum().backward()
        return w.grad.numpy()

    even = np.array([[1, 2, 1], [4, 4, 2]])
    np.testing.assert_allclose(run(sf, even), run(torch, even), 1e-12)
    scaled = run(sf, INDICES)
    w = leaf(sf, TABLE)
    (sf.nn.functional.embedding_bag(sf.tensor(INDICES), w, mode=mode) ** 2).sum().backward()
    often = np.bincount(INDICES.ravel(), minlength=6)[:, None]
    np.testing.assert_allclose(scaled * np.maximum(often, 1), w.grad.numpy(), 1e-12)


def test_a_module_of_pytorch_keeps_its_frequencies() -> None:
    theirs = torch.nn.Embedding(6, 3, scale_grad_by_freq=True).double()
    indices = torch.tensor(INDICES)
    (theirs(indices) ** 2).sum().backward()
    wanted = theirs.weight.grad.clone()
    ours = sf.torch.from_module(theirs, (indices,), copy=True)
    (ours(sf.tensor(INDICES)) ** 2).sum().backward()
    np.testing.assert_allclose(next(ours.parameters()).grad.numpy(), wanted.numpy(), 1e-12)
    theirs.weight.grad = None
    (torch.compile(theirs, backend=sf.torch.backend)(indices) ** 2).sum().backward()
    np.testing.assert_allclose(theirs.weight.grad.numpy(), wanted.numpy(), 1e-12)


# -- derivatives ----------------------------------------------------------------------------------

JACOBIANS: dict[str, Callable[[Any], Any]] = {
    "a matrix": lambda x: x @ x.t(),
    "a number": lambda x: (x**3).sum(),
    "two": lambda x: (x.sum(0), x.exp()),
}


@pytest.mark.parametrize("case", JACOBIANS)
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobians_by_either_strategy(case: str, strategy: str) -> None:
    def run(library: Any) -> Any:
        jacobian = library.autograd.functional.jacobian
        x = library.tensor(X, dtype=library.float64)
        found = jacobian(JACOBIANS[case], x, vectorize=True, strategy=strategy)
        return [f.tolist() for f in (found if isinstance(found, tuple) else [found])]

    theirs, ours = both(run)
    compiled = sf.jit(
        lambda x: sf.autograd.functional.jacobian(
            JACOBIANS[case], x, vectorize=True, strategy=strategy
        )
    )(sf.tensor(X))
    several = compiled if isinstance(compiled, tuple) else [compiled]
    for a, b, c in zip(theirs, ours, several, strict=True):
        np.testing.assert_allclose(a, b, 1e-12)
        np.testing.assert_allclose(a, c.tolist(), 1e-12)


@pytest.mark.parametrize("vectorize", [False, True])
def test_hessians_by_either_strategy(vectorize: bool) -> None:
    def run(library: Any) -> Any:
        x = library.tensor(X, dtype=library.float64)
        how = {"outer_jacobian_strategy": "forward-mode" if vectorize else "reverse-mode"}
        hessian = library.autograd.functional.hessian
        return hessian(lambda t: (t.exp() * t.sum()).sum(), x, vectorize=vectorize, **how).tolist()

    theirs, ours = both(run)
    np.testing.assert_allclose(theirs, ours, 1e-12)


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 5, 100])
def test_jacobians_of_functions_in_chunks(chunk_size: int | None) -> None:
    def run(library: Any) -> Any:
        x = library.tensor(X, dtype=library.float64)
        f = library.func.jacrev(JACOBIANS["a matrix"], chunk_size=chunk_size)
        forward = library.func.jacfwd(JACOBIANS["a matrix"], randomness="same")
        return f(x).tolist(), forward(x).tolist()

    theirs, ours = both(run)
    np.testing.assert_allclose(theirs, ours, 1e-12)
    compiled = sf.jit(sf.func.jacrev(JACOBIANS["a matrix"], chunk_size=chunk_size))(sf.tensor(X))
    np.testing.assert_allclose(theirs[0], compiled.tolist(), 1e-12)


def test_what_no_output_depends_on_is_refused_by_both_where_asked() -> None:
    for library in (torch, sf):
        x = library.ones(2)
        given = (lambda x: x.detach() * 0), (x,), (x,)
        assert library.func.jvp(*given)[1].tolist() == [0.0, 0.0]
        with pytest.raises(RuntimeError, match=r"strict"):
            library.func.jvp(*given, strict=True)


def _gradcheck_inputs(library: Any) -> Any:
    return leaf(library, [[0.3, 0.7], [1.1, -0.4]])


CHECKED: dict[str, Callable[[Any], Any]] = {
    "sine": lambda x: x.sin(),
    "product": lambda x: x @ x.t(),
    "two": lambda x: (x.sum(), x * 3),
    "cut": lambda x: x * x.detach(),
}

CHECKS: list[dict[str, bool]] = [
    {"fast_mode": True},
    {"check_forward_ad": True},
    {"check_forward_ad": True, "check_backward_ad": False},
    {"check_forward_ad": True, "fast_mode": True},
    {"check_batched_grad": True},
    {"check_forward_ad": True, "check_batched_forward_grad": True},
    {"masked": True},
]


@pytest.mark.parametrize("case", CHECKED)
@pytest.mark.parametrize("options", CHECKS, ids=lambda o: " ".join(o))
def test_gradcheck_finds_what_pytorch_finds(case: str, options: dict[str, bool]) -> None:
    def run(library: Any) -> bool:
        check: Callable[..., bool] = library.autograd.gradcheck
        return check(CHECKED[case], _gradcheck_inputs(library), raise_exception=False, **options)

    theirs, ours = both(run)
    assert theirs is ours is (case != "cut")


@pytest.mark.parametrize("case", CHECKED)
@pytest.mark.parametrize("name", ["check_fwd_over_rev", "check_batched_grad", "fast_mode"])
def test_gradgradcheck_finds_what_pytorch_finds(case: str, name: str) -> None:
    def run(library: Any) -> bool:
        check: Callable[..., bool] = library.autograd.gradgradcheck
        options = {name: True, "raise_exception": False}
        return check(CHECKED[case], _gradcheck_inputs(library), **options)

    theirs, ours = both(run)
    assert theirs is ours is (case != "cut")


def test_checks_of_nothing_are_refused_by_both() -> None:
    for options in (
        {"check_backward_ad": False},
        {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
        {"check_batched_forward_grad": True},
    ):
        for library, error in ((torch, AssertionError), (sf, sf.ArgumentError)):
            with pytest.raises(error, match=r"check_"):
                library.autograd.gradcheck(library.sin, _gradcheck_inputs(library), **options)


def test_anomalies_are_not_looked_for_where_nobody_asks() -> None:
    for library in (torch, sf):
        detect, switch = library.autograd.detect_anomaly, library.autograd.set_detect_anomaly

        def walk(library: Any = library) -> None:
            (library.zeros(1, requires_grad=True).sqrt() * 0).backward()

        with detect(check_nan=False):
            walk()
        with switch(True, check_nan=False):
            walk()
        with pytest.raises(RuntimeError, match="nan"), switch(True):
            walk()
        walk()


def test_checkpoints_are_computed_in_the_contexts_that_are_given() -> None:
    def run(library: Any) -> list[Any]:
        met: list[str] = []

        @contextmanager
        def tell(word: str) -> Iterator[None]:
            met.append(word)
            yield

        x = library.ones(2, requires_grad=True)
        found = library.utils.checkpoint.checkpoint(
            lambda t: (t.exp() * t).sin(), x, use_reentrant=False, early_stop=True, debug=False,
            determinism_check="default", context_fn=lambda: (tell("first"), tell("again")),
        )  # fmt: skip
        met.append("between")
        found.sum().backward()
        return [*met, *x.grad.tolist()]

    theirs, ours = both(run)
    assert theirs[:3] == ours[:3] == ["first", "between", "again"]
    np.testing.assert_allclose(theirs[3:], ours[3:], 1e-6)


# -- modules --------------------------------------------------------------------------------------


def test_containers_take_entries_by_name() -> None:
    def run(library: Any) -> Any:
        nn = library.nn
        stack = nn.Sequential().append(module=nn.ReLU()).extend(sequential=[nn.Tanh()])
        stack.insert(index=0, module=nn.Identity())
        several = nn.ModuleList().append(module=nn.ReLU()).extend(modules=[nn.Tanh(), nn.SiLU()])
        several.insert(index=1, module=nn.GELU())
        taken = several.pop(key=0)
        named = nn.ModuleDict()
        named.update(modules={"a": nn.ReLU()})
        numbers = nn.ParameterList().append(value=library.ones(1)).extend(values=[library.ones(2)])
        words = nn.ParameterDict()
        words.update(parameters={"w": library.ones(2)})
        return list(map(repr, (stack, several, taken, named))), len(numbers), list(words)

    theirs, ours = both(run)
    assert theirs == ours


@pytest.mark.parametrize("foreach", [None, False, True])
def test_gradients_are_clipped_with_or_without_foreach(foreach: bool | None) -> None:
    def run(library: Any) -> Any:
        utils, found = library.nn.utils, []
        w = library.nn.Parameter(library.tensor([3.0, 4.0]))
        for clip in (
            lambda: utils.clip_grad_norm_([w], 1.0, foreach=foreach),
            lambda: utils.clip_grad_value_([w], 2.0, foreach=foreach),
            lambda: utils.clip_grads_with_norm_([w], 1.0, library.tensor(10.0), foreach=foreach),
        ):
            w.grad = library.tensor([3.0, 4.0])
            clip()
            found.append(w.grad.tolist())
        return [*found, [utils.get_total_norm([w.detach()], foreach=foreach).item()]]

    theirs, ours = both(run)
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(a, b, 1e-6)


def test_hooks_are_called_where_a_forward_fails() -> None:
    def run(library: Any) -> list[Any]:
        calls: list[Any] = []
        layer = library.nn.Linear(2, 2)
        layer.register_forward_hook(lambda m, a, out: calls.append("usual"))
        layer.register_forward_hook(lambda m, a, out: calls.append(out), always_call=True)
        layer.register_forward_hook(
            lambda m, a, k, out: calls.append(sorted(k)), always_call=True, with_kwargs=True
        )
        with pytest.raises(RuntimeError):
            layer(input=library.ones(3))
        return calls

    theirs, ours = both(run)
    assert theirs == ours == [None, ["input"]]


def test_modules_under_each_of_their_names() -> None:
    def run(library: Any) -> list[int]:
        layer = library.nn.ReLU()
        stack = library.nn.Sequential(layer, layer)
        return [len(list(stack.modules(remove_duplicate=flag))) for flag in (True, False)]

    theirs, ours = both(run)
    assert theirs == ours == [2, 3]


def test_batches_with_the_options_of_workers() -> None:
    began: list[int] = []
    options = {
        "batch_size": 2, "num_workers": 1, "prefetch_factor": 3, "persistent_workers": True,
        "timeout": 5, "in_order": True, "pin_memory_device": "", "multiprocessing_context": None,
    }  # fmt: skip
    rows = [np.arange(2) + i for i in range(5)]
    theirs = list(torch.utils.data.DataLoader(rows, **options))
    ours = list(sf.utils.data.DataLoader(rows, worker_init_fn=began.append, **options))
    assert [b.tolist() for b in theirs] == [b.tolist() for b in ours]
    assert began == [0]
    samples = [{"x": np.ones(2), "n": 3, "pair": (np.zeros(1), "word")}, {"x": np.ones(1)}]
    theirs, ours = both(lambda lib: list(lib.utils.data.DataLoader(samples, batch_size=None)))
    assert str(theirs).replace("torch.", "") == str(ours).replace("staticflow.", "")
    for library in (torch, sf):
        with pytest.raises(ValueError, match="prefetch_factor"):
            library.utils.data.DataLoader(rows, prefetch_factor=2, num_workers=0)
        with pytest.raises(ValueError, match="drop_last"):
            library.utils.data.DataLoader(rows, batch_size=None, drop_last=True)
