"""A derivative by what gradients were stepped from: in a graph as on the tape, however what is
stepped was made, and whatever stable forms say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf
from staticflow.errors import AutogradError

BEGINNINGS: dict[str, Callable[[Any], Any]] = {
    "clone": lambda x: x.clone(),
    "view": lambda x: x.view_as(x),
    "minus_minus": lambda x: -(-x),
    "product": lambda x: x * 0.5,
    "log_of_exp": lambda x: sf.log(sf.exp(x)),
    "softplus": lambda x: sf.log(1 + sf.exp(x)),
    "length": lambda x: x / sf.sqrt((x * x).sum()),
    "softmax": lambda x: sf.log(sf.softmax(x, 0)),
    "attention": lambda x: (
        sf.softmax(x.reshape(-1, 1) @ x.reshape(1, -1), -1) @ x.reshape(-1, 1)
    ).reshape(-1),
}

LOSSES: dict[str, Callable[[Any], Any]] = {
    "cube": lambda x: (x**3).sum(),
    "tanh": lambda x: sf.tanh(x).sum(),
    "clone": lambda x: (x.clone() ** 3).sum(),
    "softplus": lambda x: sf.log(1 + sf.exp(x)).pow(2).sum(),
    "softmax": lambda x: sf.log(sf.softmax(x * x, 0))[0],
}


def stepped(begin: Callable[[Any], Any], loss: Callable[[Any], Any], steps: int, x: Any) -> Any:
    """The derivative of what comes of some steps by what they began with, and by ``x``."""
    now = first = begin(x)
    for _ in range(steps):
        (slope,) = sf.autograd.grad(loss(now), [now], create_graph=True)
        now = now - 0.1 * slope
    return sf.autograd.grad((now * now).sum(), [first, x])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("begin", BEGINNINGS)
def test_the_derivative_goes_through_all_steps(begin: str, loss: str) -> None:
    """Two steps from a clone had the derivative of the first alone."""
    values = sf.linspace(-1, 1.5, 9, dtype=sf.float64)
    fn = BEGINNINGS[begin], LOSSES[loss]
    for steps in (1, 2, 3):
        wanted = stepped(*fn, steps, values.clone().requires_grad_())
        jitted = sf.jit(lambda x, steps=steps: stepped(*fn, steps, x))(
            values.clone().requires_grad_()
        )
        x = sf.placeholder((9,), dtype=sf.float64, name="x")
        compiled = sf.compile([x], stepped(*fn, steps, x))(values)
        for got in (jitted, compiled):
            sf.testing.assert_close([t.detach() for t in got], [t.detach() for t in wanted])


BETWEEN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "clone": (lambda x: x.clone(), lambda h: h**3),
    "exp": (sf.exp, lambda h: sf.log(1 + h)),
    "what is made of a form": (lambda x: sf.log(1 + sf.exp(x)) * 2, lambda h: h**3),
    "length": (lambda x: sf.sqrt((x * x).sum(0, keepdim=True)), lambda h: h * h),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_a_gradient_that_forms_have_taken_is_not_differentiated_by_what_they_left_out(
    name: str,
) -> None:
    """It was, as if that gradient did not depend on it: ``d (g h) / d h`` was ``g``."""
    make, loss = BETWEEN[name]

    def program(x: Any, beside: bool) -> Any:
        h = make(x)
        first = sf.autograd.grad(loss(h).sum(), [x, h] if beside else [x], create_graph=True)
        return sf.autograd.grad((first[0] * h).sum(), [h])

    values = sf.tensor([0.7, -0.4], dtype=sf.float64)
    wanted = program(values.clone().requires_grad_(), False)
    x = sf.placeholder((2,), dtype=sf.float64, name="x")
    with pytest.raises(AutogradError, match="a gradient that is differentiated, which a stable"):
        program(x, False)
    sf.testing.assert_close(
        [t.detach() for t in sf.compile([x], program(x, True))(values)],
        [t.detach() for t in wanted],
    )
