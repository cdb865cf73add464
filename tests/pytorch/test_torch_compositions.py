"""Rarer functions and layers give what PyTorch's give, with gradients, by the same numbers."""

from __future__ import annotations

from typing import Any

import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason="what these give is said by PyTorch")
TF, F = torch.nn.functional, sf.nn.functional


def both(theirs: Any, ours: Any, x: Any) -> None:
    """Values and the gradients by ``x`` are equal."""
    a, b = x.clone().requires_grad_(), sf.tensor(x).requires_grad_()
    wanted, found = theirs(a), ours(b)
    torch.testing.assert_close(torch.from_dlpack(found.detach()), wanted.detach())
    wanted.sin().sum().backward()
    found.sin().sum().backward()
    torch.testing.assert_close(torch.from_dlpack(b.grad), a.grad)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_max_pooling(rank: int) -> None:
    x, samples = torch.randn(2, 3, *(9, 11, 8)[:rank]), torch.rand(2, 3, rank)
    name = f"fractional_max_pool{rank}d"
    for size in (1, (5, 4, 3)[:rank]):
        options = {"output_size": size, "return_indices": True}
        wanted = getattr(TF, name)(x, 2, _random_samples=samples, **options)
        found = getattr(F, name)(sf.tensor(x), 2, _random_samples=sf.tensor(samples), **options)
        assert [v.tolist() for v in found] == [v.tolist() for v in wanted]


@pytest.mark.parametrize(("scale", "zero"), [(0.1, 0), (0.037, 10), (2.5, -3)])
def test_fake_quantization(scale: float, zero: int) -> None:
    x, bounds = torch.randn(200) * 10, (-8, 100)
    both(
        lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero, *bounds),
        lambda x: sf.fake_quantize_per_tensor_affine(x, scale, zero, *bounds),
        x,
    )
    scales, zeros = torch.rand(4) + 0.1, torch.tensor([0, 3, -2, 9], dtype=torch.int32)
    both(
        lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, *bounds),
        lambda x: sf.fake_quantize_per_channel_affine(
            x, sf.tensor(scales), sf.tensor(zeros), 1, *bounds
        ),
        x.reshape(-1, 4),
    )


@pytest.mark.skipif(not hasattr(TF, "linear_cross_entropy"), reason="PyTorch 2.13 has it first")
@pytest.mark.parametrize("out_features", [(), (2,)])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"ignore_index": 1}], ids=str)
def test_linear_cross_entropy(out_features: tuple[int, ...], options: dict[str, Any]) -> None:
    sizes = {"out_features": out_features, "bias": True}
    theirs = torch.nn.LinearCrossEntropyLoss(6, 5, **sizes, **options)
    ours = sf.nn.LinearCrossEntropyLoss(6, 5, **sizes, **options)
    ours.load_state_dict(theirs.state_dict())
    y = torch.randint(0, 5, (7, *out_features))
    both(lambda x: theirs(x, y), lambda x: ours(x, sf.tensor(y)), torch.randn(7, 6))


@pytest.mark.parametrize("head_bias", [False, True])
def test_adaptive_softmax(head_bias: bool) -> None:
    sizes: Any = (8, 20, [4, 10], 2.0, head_bias)
    theirs, ours = (kind.nn.AdaptiveLogSoftmaxWithLoss(*sizes) for kind in (torch, sf))
    ours.load_state_dict(theirs.state_dict())
    y = torch.tensor([0, 3, 4, 9, 10, 19])
    x = torch.randn(6, 8)
    both(lambda x: theirs(x, y).output, lambda x: ours(x, sf.tensor(y)).output, x)
    both(lambda x: theirs(x, y).loss, lambda x: ours(x, sf.tensor(y)).loss, x)
    both(theirs.log_prob, ours.log_prob, x)
    assert ours.predict(sf.tensor(x)).tolist() == theirs.predict(x).tolist()


def test_low_rank_factors_have_pytorchs_shapes() -> None:
    A = torch.randn(2, 9, 7)
    for name, options in (("svd_lowrank", {"q": 3}), ("pca_lowrank", {}), ("svd_lowrank", {})):
        wanted, found = (
            getattr(torch, name)(A, **options),
            getattr(sf, name)(sf.tensor(A), **options),
        )
        assert [tuple(v.shape) for v in wanted] == [v.shape for v in found]
