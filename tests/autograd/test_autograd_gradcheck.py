"""``gradcheck`` passes what is right and finds what is wrong."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import staticflow as sf
from staticflow.autograd import GradcheckError, gradcheck, gradgradcheck
from staticflow.errors import AutogradError


def leaf(*shape: int, dtype: str = "float64") -> sf.Tensor:
    return sf.rand(*shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 0), (2, 3)])
def test_what_is_right_passes(shape: tuple[int, ...]) -> None:
    assert gradcheck(sf.sin, leaf(*shape)) and gradgradcheck(sf.sin, leaf(*shape))


def test_inputs_and_outputs_of_all_kinds() -> None:
    x, w = leaf(2, 3), leaf(4, 3)

    def fn(a: Any, b: Any, n: int, still: Any) -> Any:
        return (a @ b.t()) * n, a.sum() + still, a > 0, "text"

    assert gradcheck(fn, (x, w, 3, sf.ones((), dtype="float64")))
    assert gradgradcheck(fn, (x, w, 3, sf.ones((), dtype="float64")))


def test_layouts() -> None:
    base = sf.rand(4, 6, dtype="float64")
    for view in (base.t(), base[::2, 1:], base[:, 0]):
        x = view.detach().requires_grad_()
        assert gradcheck(lambda a: a * a.sum(), x)
        assert gradgradcheck(lambda a: a * a.sum(), x, gen_non_contig_grad_outputs=True)
    with pytest.raises(AutogradError, match=r"input 0 overlaps itself.*clone"):
        gradcheck(sf.sin, base[:1].expand(3, 6).detach().requires_grad_())


def test_given_cotangents() -> None:
    assert gradgradcheck(lambda a: a**3, leaf(2), leaf(2))
    assert gradgradcheck(lambda a: (a**3, a.exp()), [leaf(2)], [leaf(2), leaf(2)])


def test_what_is_wrong_is_found() -> None:
    x = leaf(2)
    cut = lambda a: a * a.detach()  # noqa: E731
    with pytest.raises(
        GradcheckError,
        match=r"(?s)Jacobian mismatch for output 0 with respect to input 0,\nnumerical.*analytical",
    ):
        gradcheck(cut, x)
    assert not gradcheck(cut, x, raise_exception=False)
    assert gradcheck(lambda a: a.exp(), x)
    with pytest.raises(GradcheckError, match="mismatch"):  # right once, wrong twice
        gradgradcheck(lambda a: a * a + (a.detach() - a) * a.detach() ** 2, x)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda a: a.detach() * 2, x)


def test_tolerances() -> None:
    x = sf.tensor([1.0, 2.0], dtype="float64", requires_grad=True)
    near = lambda a: a * 1.0 + (a.detach() - a) * 1e-4  # noqa: E731
    assert gradcheck(near, x)
    assert not gradcheck(near, x, rtol=1e-6, atol=1e-7, raise_exception=False)


def test_results_that_change_are_found() -> None:
    pulls = iter(range(100))

    class Drifts(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return ct * (1 + 1e-9 * next(pulls))

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Drifts.apply, leaf(2))
    assert gradcheck(Drifts.apply, leaf(2), nondet_tol=1e-3)


def test_gradients_that_are_left_out_must_be_borne() -> None:
    class Needs(sf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return a * 2 + b * 3

    with pytest.raises(GradcheckError, match="undefined output grads"):
        gradcheck(Needs.apply, leaf(2))


def test_inputs_that_cannot_be_checked() -> None:
    with pytest.raises(AutogradError, match="at least one input"):
        gradcheck(sf.sin, sf.ones(2, dtype="float64"))
    with pytest.warns(UserWarning, match="float32") as caught:
        gradcheck(lambda a: a * 2, leaf(2, dtype="float32"), atol=1, raise_exception=False)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradcheck(lambda a: a * 2, leaf(2))
