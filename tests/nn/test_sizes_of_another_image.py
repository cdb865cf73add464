"""``F.interpolate`` to the size of another image, which is unknown until the call: in both modes,
with gradients, and as a module of PyTorch's asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.nn import functional as F

MODES = [
    (mode, corners)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
    for corners in ((None, True) if mode in ("bilinear", "bicubic") else (None,))
]


@pytest.mark.parametrize("known", [False, True], ids=["both open", "one known"])
@pytest.mark.parametrize(("mode", "corners"), MODES)
def test_an_image_in_the_size_of_another(mode: str, corners: bool | None, known: bool) -> None:
    x = sf.tensor(np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32))
    other = sf.ones(2, 3, 7, 3)

    def compute(x: Any, other: Any) -> Any:
        size = (other.shape[2], 6) if known else other.shape[2:]
        return F.interpolate(x, size=size, mode=mode, align_corners=corners)

    p, q = (sf.placeholder((None, 3, None, None), name=name) for name in "pq")
    of_p = sf.grad(compute(p, q).square().sum(), p)
    found, slope = sf.compile([p, q], [compute(p, q), of_p])(x, other)
    leaf = x.clone().requires_grad_()
    wanted = compute(leaf, other)
    wanted.square().sum().backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slope.numpy(), leaf.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_sizes_that_are_none() -> None:
    p = sf.placeholder((None, 3, None, None), name="p")
    for wrong in ((p.shape[2], 0), (p.shape[2], 1.5), (p.shape[2],) * 3, "ab"):
        with pytest.raises(sf.ShapeError, match=r"interpolate: size is .*test_sizes_of_another"):
            F.interpolate(p, size=wrong)
    program = sf.compile([p], F.interpolate(p, size=(p.shape[2] - 2, 3)))
    assert program(sf.ones(1, 3, 5, 4)).shape == (1, 3, 3, 3)
    with pytest.raises(sf.ShapeError, match="p_2 - 2 must be at least 1"):
        program(sf.ones(1, 3, 2, 4))


def test_a_module_of_pytorch_for_images_of_any_size() -> None:
    torch = pytest.importorskip("torch", reason="whose module it is")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
            self.out = torch.nn.Conv2d(4, 2, 3, padding=1)

        def forward(self, x: Any) -> Any:
            small = self.down(x)
            large = torch.nn.functional.interpolate(small, size=x.shape[-2:], mode="bilinear")
            return self.out(large)

    torch.manual_seed(0)
    theirs = Net()
    sizes = ({d: torch.export.Dim.DYNAMIC for d in (0, 2, 3)},)
    ours = sf.torch.from_module(theirs, (torch.ones(2, 3, 8, 6),), dynamic_shapes=sizes)
    x = sf.placeholder(("N", 3, "H", "W"), name="x")
    program = sf.compile([x], ours(x))
    for shape in ((2, 3, 8, 6), (3, 3, 5, 9)):
        image = torch.randn(shape)
        wanted = theirs(image).detach().numpy()
        np.testing.assert_allclose(program(image).numpy(), wanted, rtol=1e-4, atol=1e-5)
