"""Parametrized layers are PyTorch's: the names of their states, values and gradients."""

from __future__ import annotations

from typing import Any

import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason="what parametrized layers give is said by PyTorch")

CASES: list[tuple[str, str, tuple[int, ...], dict[str, Any], tuple[int, ...]]] = [
    ("weight_norm", "Linear", (4, 3), {}, (5, 4)),
    ("weight_norm", "Linear", (4, 3), {"dim": None}, (5, 4)),
    ("weight_norm", "Conv2d", (2, 3, 2), {"dim": 1}, (2, 2, 4, 4)),
    ("spectral_norm", "Linear", (4, 3), {"n_power_iterations": 2}, (5, 4)),
    ("spectral_norm", "Linear", (4, 3), {"name": "bias"}, (5, 4)),
    ("spectral_norm", "ConvTranspose2d", (2, 3, 2), {}, (2, 2, 4, 4)),
    ("orthogonal", "Linear", (4, 4), {}, (5, 4)),
    ("orthogonal", "Linear", (4, 3), {}, (5, 4)),
    ("orthogonal", "Linear", (3, 4), {"use_trivialization": False}, (5, 3)),
    ("orthogonal", "Linear", (3, 4), {"orthogonal_map": "cayley"}, (5, 3)),
    ("orthogonal", "Linear", (4, 3), {"orthogonal_map": "matrix_exp"}, (5, 4)),
    ("orthogonal", "Conv2d", (2, 3, (3, 2)), {}, (2, 2, 4, 4)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]} of {c[1]} {c[3]}")
def test_a_layer_is_pytorchs(case: Any) -> None:
    what, layer, sizes, options, shape = case
    theirs = getattr(torch.nn.utils.parametrizations, what)(
        getattr(torch.nn, layer)(*sizes), **options
    )
    ours = getattr(sf.nn.utils.parametrizations, what)(getattr(sf.nn, layer)(*sizes), **options)
    with torch.no_grad():  # away from where it begins
        for p in theirs.parameters():
            p += torch.randn_like(p).tril(-1) if p.ndim > 1 else 0
    state = {name: sf.tensor(t.numpy()) for name, t in theirs.state_dict().items()}
    assert [*ours.state_dict()] == [*state]
    ours.load_state_dict(state)
    x = torch.randn(shape)
    for _ in range(2):
        wanted, found = theirs(x), ours(sf.tensor(x.numpy()))
        wanted.square().sum().backward()
        found.square().sum().backward()
        torch.testing.assert_close(torch.tensor(found.detach().numpy()), wanted.detach())
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(
            torch.tensor(p.grad.numpy()), q.grad, rtol=1e-4, atol=1e-5, msg=name
        )
    for (name, b), c in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(torch.tensor(b.numpy()), c, msg=name)


OLDER = [c for c in CASES if c[0] != "orthogonal" and c[3].get("name") != "bias"]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("place", ["parametrizations", ""], ids=["new", "older"])
@pytest.mark.parametrize("case", OLDER, ids=lambda c: f"{c[0]} of {c[1]} {c[3]}")
def test_a_state_of_the_older_function_is_loaded(case: Any, place: str) -> None:
    what, layer, sizes, options, shape = case
    theirs = torch.nn.Sequential(
        getattr(torch.nn.utils, what)(getattr(torch.nn, layer)(*sizes), **options)
    ).eval()
    with torch.no_grad():
        for p in theirs.parameters():
            p += torch.randn_like(p).abs()
    functions = getattr(sf.nn.utils, place) if place else sf.nn.utils
    made = getattr(functions, what)(getattr(sf.nn, layer)(*sizes), **options)
    ours = sf.nn.Sequential(made).eval()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(shape)
    torch.testing.assert_close(torch.from_dlpack(ours(sf.tensor(x)).detach()), theirs(x).detach())
