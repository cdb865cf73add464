"""`sf.torch.from_module` of what PyTorch has exported already, and of pooling whose windows are drawn."""

import copy
from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: Any, *, shift: Any) -> dict[str, Any]:
        with torch.no_grad():
            most = self.body(x).abs().amax()
        return {"y": self.body(x) * self.scale + shift, "most": most * self.scale.sum()}


def tensor(x: Any) -> sf.Tensor:
    return sf.tensor(x.detach().numpy())


def exported(model: Any) -> Any:
    rows = torch.export.Dim("rows")
    given = (torch.randn(5, 3),), {"shift": torch.ones(4)}
    return torch.export.export(model, *given, dynamic_shapes={"x": {0: rows}, "shift": None})


@pytest.mark.parametrize("in_training", [True, False])
def test_an_exported_program_is_taken_as_its_module(in_training: bool) -> None:
    theirs = Net().train(in_training)
    alone = copy.deepcopy(theirs)
    program = exported(theirs)
    text = str(program)
    ours = sf.torch.from_module(program)
    assert str(program) == text, "the program stays as it is"
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.training is in_training
    x, shift = torch.randn(7, 3), torch.randn(4)
    expected = alone(x, shift=shift)
    (expected["y"].square().sum() + expected["most"]).backward()
    got = ours(tensor(x), shift=tensor(shift))
    (got["y"].square().sum() + got["most"]).backward()
    for key, value in expected.items():
        np.testing.assert_allclose(got[key].detach().numpy(), value.detach().numpy(), rtol=1e-5)
    for own, other in zip(ours.parameters(), alone.parameters(), strict=True):
        np.testing.assert_allclose(own.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-5)
    for name, buffer in alone.named_buffers():
        np.testing.assert_allclose(dict(theirs.named_buffers())[name], buffer, rtol=1e-5)
    xs = sf.placeholder((None, 3), name="x")
    step = sf.compile([xs], sf.torch.from_module(exported(alone))(xs, shift=sf.ones(4))["y"])
    assert step(sf.ones(6, 3)).shape == (6, 4)


def test_a_copy_trains_by_itself() -> None:
    theirs = torch.nn.Linear(2, 1)
    program = torch.export.export(theirs, (torch.ones(3, 2),))
    for is_copy in (False, True):
        ours = sf.torch.from_module(program, copy=is_copy)
        with sf.no_grad():
            ours.weight.add_(1.0)
        assert np.array_equal(ours.weight.detach().numpy(), theirs.weight.detach()) is not is_copy


def test_examples_beside_a_program_are_refused() -> None:
    x = torch.ones(3, 2)
    program = torch.export.export(torch.nn.Linear(2, 1), (x,))
    with pytest.raises(sf.ArgumentError, match=r"an ExportedProgram has its examples.*leave out"):
        sf.torch.from_module(program, x)
    with pytest.raises(sf.DTypeError, match=r"a torch.export.ExportedProgram, not int"):
        sf.torch.from_module(3, x)


@pytest.mark.parametrize("dims", [2, 3])
def test_windows_that_are_drawn(dims: int) -> None:
    samples = torch.rand(2, 3, dims)
    pool = getattr(torch.nn, f"FractionalMaxPool{dims}d")
    theirs = pool(2, output_size=4, return_indices=True, _random_samples=samples)
    x = torch.randn(2, 3, *(9, 8, 7)[:dims])
    ours = sf.torch.from_module(theirs, x)
    given, expected_of = (v.clone().requires_grad_() for v in (x, x))
    values, places = theirs(expected_of)
    values.square().sum().backward()
    mine = sf.tensor(given.detach().numpy(), requires_grad=True)
    got, at = ours(mine)
    got.square().sum().backward()
    np.testing.assert_array_equal(got.detach().numpy(), values.detach().numpy())
    np.testing.assert_array_equal(at.numpy(), places.numpy())
    np.testing.assert_array_equal(mine.grad.numpy(), expected_of.grad.numpy())
    drawn = pool(2, output_ratio=0.5)
    assert sf.torch.from_module(drawn, x)(tensor(x)).shape == tuple(drawn(x).shape)
    compiled = torch.compile(theirs, backend="staticflow")
    again = x.clone().requires_grad_()
    compiled(again)[0].square().sum().backward()
    np.testing.assert_allclose(again.grad.numpy(), expected_of.grad.numpy(), rtol=1e-6)
