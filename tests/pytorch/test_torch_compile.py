"""``torch.compile`` with this compiler as its backend: values, gradients and buffers are PyTorch's."""

from __future__ import annotations

import copy
import gc
import importlib
import tomllib
import weakref
from pathlib import Path
from typing import Any

import pytest
from slices import daily

import staticflow as sf

torch = pytest.importorskip("torch", reason='torch.compile: pip install "staticflow[torch]"')

from torch_tutorials import MODELS, TUTORIALS  # noqa: E402

from staticflow.torch.exchange import ArraysFromTorch  # noqa: E402

leaves_of = torch.utils._pytree.tree_leaves
FEW = (
    "mlp", "resnet in training", "efficientnet", "norm first", "gpt", "wavenet",
    *(name for name in TUTORIALS if name != "spatial transformer"),
)  # fmt: skip
"""Of the models those that between them have every kind of layer. An affine grid of open sizes is more
than PyTorch traces."""


@pytest.fixture(autouse=True)
def forget() -> Any:
    """Each test compiles anew."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def loss_of(outputs: Any) -> Any:
    return sum((x * 2).sin().reshape(-1).cumsum(0).mean() for x in leaves_of(outputs))


def pair(module: Any, **options: Any) -> tuple[Any, Any]:
    """A module, and a compiled copy."""
    return module, torch.compile(copy.deepcopy(module), backend=sf.torch.backend, **options)


@pytest.mark.parametrize("name", daily(FEW, 1, "torch.compile"))
def test_a_model_is_pytorchs_with_its_gradients(name: str) -> None:
    check_model(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", FEW)
def test_every_model_is_pytorchs_with_its_gradients(name: str) -> None:
    check_model(name)


def check_model(name: str) -> None:
    model = MODELS[name]
    torch.manual_seed(0)
    theirs, ours = pair(model.make().train(model.training), dynamic=True)
    for size in (4, 6):
        args = model.arguments(size)
        wanted, actual = theirs(*args), ours(*args)
        for a, w in zip(leaves_of(actual), leaves_of(wanted), strict=True):
            torch.testing.assert_close(a, w, rtol=1e-3, atol=1e-4)
        theirs.zero_grad()
        ours.zero_grad()
        loss_of(wanted).backward()
        loss_of(actual).backward()
        for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
            torch.testing.assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-4)
    for a, w in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(a, w, rtol=1e-3, atol=1e-4)


def test_a_step_of_pytorchs_optimiser_trains() -> None:
    torch.manual_seed(0)
    _, compiled = pair(MODELS["mlp"].make())
    optimizer = torch.optim.SGD(compiled.parameters(), 0.1)
    x = torch.randn(6, 3)
    losses = []
    for _ in range(20):
        loss = (compiled(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


OPTIMISERS = [(name, foreach) for name in ("SGD", "Adam", "NAdam") for foreach in (False, True)]


@pytest.mark.parametrize(("name", "foreach"), daily(OPTIMISERS, 2, "torch optimisers"))
def test_a_whole_step_with_pytorchs_optimiser(name: str, foreach: bool) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.Linear(3, 2)
    ours = copy.deepcopy(theirs)
    x = torch.randn(4, 3)

    def step_of(module: Any) -> Any:
        optimizer = getattr(torch.optim, name)(module.parameters(), lr=0.05, foreach=foreach)

        def step() -> Any:
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager, compiled = step_of(theirs), torch.compile(step_of(ours), backend=sf.torch.backend)
    for _ in range(3):
        torch.testing.assert_close(compiled(), eager(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-4, atol=1e-5)


def test_a_parameter_may_lie_elsewhere_later() -> None:
    torch.manual_seed(0)
    model, compiled = pair(MODELS["mlp"].make())
    x = torch.randn(6, 3)
    with torch.no_grad():
        for change in (
            lambda p: p,
            lambda p: p.mul_(2),
            lambda p: setattr(p, "data", p.data + 1),
            lambda p: setattr(p, "data", p.data.t().contiguous().t()),
            lambda p: p.sub_(1),
        ):
            for module in (model, compiled):
                for p in module.parameters():
                    change(p)
            for _ in range(2):
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)


def test_arrays_of_parameters_are_kept_as_long_as_these() -> None:
    arrays_of = ArraysFromTorch(torch, 2)
    x, p = torch.ones(3), torch.nn.Parameter(torch.ones(2))
    first, again = arrays_of([x, p]), arrays_of([x, p])
    assert again[1] is first[1] and again[0] is not first[0]
    assert again[1].tolist() == [1, 1]
    p.data = torch.zeros(2)
    (_, moved) = arrays_of([x, p])
    assert moved.tolist() == [0, 0] and arrays_of([x, p])[1] is moved
    other = torch.nn.Parameter(p.data)
    assert arrays_of([x, other])[1] is not moved
    kept = weakref.ref(arrays_of([x, other])[1])
    assert kept() is not None
    del other
    gc.collect()
    assert kept() is None


def test_changes_in_place_reach_the_argument() -> None:
    def change(x: Any, y: Any) -> Any:
        x.add_(y)
        x[0] = 7
        return x * 2, x.t()

    compiled = torch.compile(change, backend=sf.torch.backend)
    x, y = torch.ones(2, 3), torch.full((2, 3), 2.0)
    twice, turned = compiled(x, y)
    assert x.tolist() == [[7.0] * 3, [3.0] * 3]
    assert twice.tolist() == [[14.0] * 3, [6.0] * 3] and turned.shape == (3, 2)


def test_numbers_constants_and_no_arguments() -> None:
    @torch.compile(backend=sf.torch.backend, dynamic=True)
    def scaled(x: Any, n: int) -> Any:
        return x * n + torch.arange(x.shape[0]), x.shape[0] * n

    for n in (3, 4, 5):
        value, size = scaled(torch.ones(n + 1), n)
        assert value.tolist() == [n + i for i in range(n + 1)] and size == (n + 1) * n

    @torch.compile(backend=sf.torch.backend)
    def nothing() -> Any:
        return torch.zeros(2) + 1

    assert nothing().tolist() == [1.0, 1.0]


def test_draws_are_new_in_each_call() -> None:
    compiled = torch.compile(torch.nn.Dropout(0.5), backend=sf.torch.backend)
    x = torch.ones(400)
    a, b = compiled(x), compiled(x)
    assert set(a.tolist()) == {0.0, 2.0} and a.tolist() != b.tolist()


def test_matrices_are_factored_whose_checks_pytorch_keeps_in_order() -> None:
    matrix = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
    for fn in (torch.linalg.inv, torch.linalg.cholesky):
        compiled = torch.compile(fn, backend=sf.torch.backend)
        x, y = matrix.clone().requires_grad_(), matrix.clone().requires_grad_()
        (actual,) = torch.autograd.grad((compiled(x) ** 2).sum(), x)
        (wanted,) = torch.autograd.grad((fn(y) ** 2).sum(), y)
        torch.testing.assert_close(actual, wanted)


FACTORED: dict[str, Any] = {
    "det": torch.linalg.det,
    "logdet": lambda a: torch.logdet(a.mT @ a),
    "slogdet of a transpose": lambda a: torch.linalg.slogdet(a.mT)[1],
    "solve": lambda a: torch.linalg.solve(a, a[..., :2].detach()),
    "solve of a transpose": lambda a: torch.linalg.solve(a.mT, a[..., :2]),
    "solve from the right": lambda a: torch.linalg.solve(a, a[..., :3, :], left=False),
    "solve a vector": lambda a: torch.linalg.solve(a[0], a[1, 0]),
    "lu_factor and lu_solve": lambda a: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(a), a.detach()
    ),
    "lu": lambda a: sum(x.sin().sum((-1, -2)) for x in torch.linalg.lu(a)),
}


@pytest.mark.parametrize("name", FACTORED)
def test_gradients_read_the_factors_l_and_u(name: str) -> None:
    """Of matrices that have to exchange rows; of determinants PyTorch keeps the factors of the
    transpose where rows lie one behind the other."""
    matrices = torch.randn(3, 4, 4, dtype=torch.float64, generator=torch.manual_seed(0))
    compiled = torch.compile(FACTORED[name], backend=sf.torch.backend, fullgraph=True)
    x, y = matrices.clone().requires_grad_(), matrices.clone().requires_grad_()
    actual, wanted = compiled(x), FACTORED[name](y)
    torch.testing.assert_close(actual, wanted)
    (of_x,) = torch.autograd.grad(actual.sin().sum(), x)
    (of_y,) = torch.autograd.grad(wanted.sin().sum(), y)
    torch.testing.assert_close(of_x, of_y)


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 5), (5, 2), (0, 0)])
def test_factors_l_and_u_are_pytorchs(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, dtype=torch.float64, generator=torch.manual_seed(0))
    if shape == (5, 2):
        matrices[:, 0] = 0.0  # a column without a pivot
    for fn in (torch.linalg.lu, lambda a: torch.linalg.lu_factor_ex(a)[:2]):
        compiled = torch.compile(fn, backend=sf.torch.backend, fullgraph=True)
        for actual, wanted in zip(compiled(matrices), fn(matrices), strict=True):
            torch.testing.assert_close(actual, wanted)


def test_factors_without_pivots() -> None:
    """PyTorch has none on a CPU."""

    def factors(a: torch.Tensor) -> Any:
        return torch.linalg.lu_factor_ex(a, pivot=False)[0], *torch.linalg.lu(a, pivot=False)

    a = torch.tensor([[4.0, 3.0], [6.0, 3.0]])
    packed, P, L, U = torch.compile(factors, backend=sf.torch.backend)(a)
    assert packed.tolist() == [[4.0, 3.0], [1.5, -1.5]]
    assert P.shape == (0,) and torch.equal(L @ U, a) and torch.equal(U, packed.triu())


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weights_are_normed(dim: int | None) -> None:
    theirs, ours = pair(
        torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(2, 3, 2), dim=dim)
    )
    x = torch.randn(4, 2, 5)
    for model in (theirs, ours):
        model(x).sin().sum().backward()
    for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad)


def test_operations_without_a_meaning_are_refused() -> None:
    def strange(x: Any) -> Any:
        return torch.special.bessel_j0(x) + 1

    line = strange.__code__.co_firstlineno + 1
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(strange, backend=sf.torch.backend)(torch.ones(2))
    text = str(caught.value)
    assert "special_bessel_j0" in text and f"test_torch_compile.py:{line}" in text


def test_the_backend_has_a_name() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (place,) = project["project"]["entry-points"]["torch_dynamo_backends"].values()
    module, name = place.split(":")
    assert getattr(importlib.import_module(module), name) is sf.torch.backend
    if "staticflow" in torch._dynamo.list_backends():  # installed since it has an entry point
        compiled = torch.compile(lambda x: x + 1, backend="staticflow")
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]


def test_options_are_those_of_compile(monkeypatch: Any) -> None:
    found: list[Any] = []
    dynamo = importlib.import_module("staticflow.torch.dynamo")
    plain = dynamo.compile

    def noting(*args: Any, **options: Any) -> Any:
        found.append(options)
        return plain(*args, **options)

    monkeypatch.setattr(dynamo, "compile", noting)
    x = torch.ones(3)
    fast = torch.compile(torch.sin, backend=sf.torch.backend, options={"numerics": "fast"})
    torch.testing.assert_close(fast(x), x.sin())
    assert found == [{"numerics": "fast"}]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "max-autotune"}, "the mode 'max-autotune' is none of staticflow's"),
        ({"options": {"triton.cudagraphs": True}}, r"the option 'triton.cudagraphs' is none"),
        ({"options": {"numerics": "quick"}}, "numerics"),
    ],
)
def test_what_is_no_option_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=said):
        torch.compile(torch.sin, backend=sf.torch.backend, **given)(torch.ones(3))
