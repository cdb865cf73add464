"""``autograd.Function``: a function with a backward of its own, on the tape."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.autograd import Function, gradcheck, gradgradcheck, once_differentiable
from staticflow.errors import AutogradError, DTypeError, ShapeError


class Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        ctx.save_for_backward(x, weight, bias)
        out = x.mm(weight.t())
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        x, weight, bias = ctx.saved_tensors
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gx = ct.mm(weight)
        if ctx.needs_input_grad[1]:
            gw = ct.t().mm(x)
        if bias is not None and ctx.needs_input_grad[2]:
            gb = ct.sum(0)
        return gx, gw, gb


class Exp(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        (y,) = ctx.saved_tensors
        return ct * y


class ReLU(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ct * (x > 0)


def leaf(*shape: int, dtype: str = "float64") -> sf.Tensor:
    draw = np.random.default_rng(sum(shape)).standard_normal(shape)
    return sf.tensor(draw, dtype=dtype, requires_grad=True)


# -- the classics -----------------------------------------------------------------------------------


def test_linear_with_and_without_bias() -> None:
    x, w, b = leaf(4, 3), leaf(2, 3), leaf(2)
    for args in ((x, w, b), (x, w), (x, w, None), (x.detach(), w, b), (x, w.detach())):
        assert gradcheck(Linear.apply, args) and gradgradcheck(Linear.apply, args)
    y = Linear.apply(x, w, b)
    assert repr(y.grad_fn) == "<LinearBackward>" and "grad_fn=<LinearBackward>" in repr(y)
    assert y.grad_fn.next_functions[0][0].variable is x and y.grad_fn.name() == "LinearBackward"


def test_exp_and_relu() -> None:
    for shape in ((), (0,), (3,), (2, 3)):
        x = leaf(*shape)
        assert gradcheck(Exp.apply, x) and gradgradcheck(Exp.apply, x)
        assert gradcheck(ReLU.apply, x) and gradgradcheck(ReLU.apply, x)


def test_third_derivative_through_a_saved_result() -> None:
    x = sf.tensor(0.5, dtype="float64", requires_grad=True)
    y = Exp.apply(x)
    for _ in range(3):
        np.testing.assert_allclose(y.item(), np.exp(0.5))
        (y,) = sf.autograd.grad(y, x, create_graph=True)


# -- what is recorded -----------------------------------------------------------------------------


def test_nothing_is_recorded_where_nobody_wants_it() -> None:
    assert not Exp.apply(sf.ones(2)).requires_grad
    with sf.no_grad():
        assert not Exp.apply(leaf(2)).requires_grad
    assert Exp.apply(leaf(2)).requires_grad


def test_needs_input_grad() -> None:
    seen: list[Any] = []

    class Asks(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, n: int, b: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return a * n + b

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return ct, None, ct

    Asks.apply(leaf(2), 3, sf.ones(2, dtype="float64")).sum().backward()
    assert seen == [(True, False, False)] * 2


def test_forward_is_not_recorded_and_sees_the_tensors_themselves() -> None:
    x = leaf(2)

    class Looks(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            assert a is x and not (a * 2).requires_grad
            return a * 2

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            assert not (ct * 2).requires_grad
            return ct * 2

    Looks.apply(x).sum().backward()


def test_setup_context() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(x: Any, factor: float) -> Any:
            return x * factor, x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.factor = inputs
            assert len(output) == 2
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx: Any, ct: Any, unused: Any) -> Any:
            return ct * ctx.factor, None

    a, b = Scaled.apply(leaf(2), 3.0)
    assert a.requires_grad and not b.requires_grad and b.grad_fn is None
    assert gradcheck(lambda x: Scaled.apply(x, 3.0), leaf(2))


# -- several results ------------------------------------------------------------------------------


class Both(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        product = x * y
        ctx.saved_product = product.shape
        return product, x + y, x > y, "text"

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        x, y = ctx.saved_tensors
        assert d is None and c.dtype is sf.bool_
        return a * y + b, a * x + b


def test_several_results() -> None:
    x, y = leaf(3), leaf(3)
    product, total, larger, text = Both.apply(x, y)
    assert product.requires_grad and not larger.requires_grad and text == "text"
    assert (product.output_nr, total.output_nr) == (0, 1) and product.grad_fn is total.grad_fn
    assert gradcheck(Both.apply, (x, y)) and gradgradcheck(Both.apply, (x, y))
    total.sum().backward()  # the other gradient comes as zeros
    assert x.grad is not None and x.grad.tolist() == [1, 1, 1]


def test_a_saved_result_among_several_in_second_order() -> None:
    class ExpAndTwice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return x * 2, y

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            (y,) = ctx.saved_tensors
            (again,) = ctx.saved_tensors
            return a * 2 + b * (y + again) / 2

    assert gradcheck(ExpAndTwice.apply, leaf(3)) and gradgradcheck(ExpAndTwice.apply, leaf(3))
    x = leaf(3)
    _, y = ExpAndTwice.apply(x)
    (g,) = sf.autograd.grad((y * y).sum(), x, create_graph=True)
    (h,) = sf.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(h.numpy(), 4 * np.exp(2 * x.detach().numpy()))


def test_materialized_gradients() -> None:
    seen: list[Any] = []

    class Pair(Function):
        materialize = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(Pair.materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append((a, b))
            return a

    x = leaf(2)
    Pair.apply(x)[0].sum().backward()
    Pair.materialize = False
    Pair.apply(x)[0].sum().backward()
    assert seen[0][1].tolist() == [0, 0] and seen[1][1] is None


def test_non_differentiable_results() -> None:
    class Sorts(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            index = x.argmax()
            half = x / 2
            ctx.mark_non_differentiable(index, half)
            return x * 2, index, half

        @staticmethod
        def backward(ctx: Any, ct: Any, index: Any, half: Any) -> Any:
            assert half.tolist() == [0, 0, 0]
            return ct * 2

    y, index, half = Sorts.apply(leaf(3))
    assert y.requires_grad and not index.requires_grad and not half.requires_grad
    y.sum().backward()


# -- in place -------------------------------------------------------------------------------------


class Doubles(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return ct * 2


def test_dirty_arguments_are_the_results() -> None:
    x = leaf(3)
    y = x * 1
    before = y._version
    z = Doubles.apply(y)
    assert z is y and repr(y.grad_fn) == "<DoublesBackward>"
    assert y._version == before + 2  # by forward, and as what is marked, as in PyTorch
    (y * y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 8 * x.detach().numpy())


def test_a_dirty_view_changes_the_history_of_its_base() -> None:
    x = leaf(3)
    y = x * 1
    Doubles.apply(y[:2])
    (y * y).sum().backward()
    wanted = np.array([8, 8, 2]) * x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), wanted)


def test_dirty_leaves_and_other_misuse_are_refused() -> None:
    with pytest.raises(AutogradError, match="leaf"):
        Doubles.apply(leaf(2))

    class Forgets(Doubles):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            Doubles.forward(ctx, x)
            return x * 1

    with pytest.raises(AutogradError, match=r"Forgets.*dirty.*given back"):
        Forgets.apply(leaf(2) * 1)


def test_what_was_saved_and_then_changed_is_caught() -> None:
    x = leaf(2) * 1
    y = ReLU.apply(x)
    x.add_(1)
    with pytest.raises(
        AutogradError, match=r"ReLU: saved tensor 0, float64\[2\].*test_autograd_function\.py"
    ):
        y.sum().backward()


def test_an_argument_given_back_is_another_tensor_on_its_memory() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return ct * 3

    x = leaf(2)
    y = Same.apply(x)
    assert y is not x and x.is_leaf and np.shares_memory(y.detach().numpy(), x.detach().numpy())
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3]


# -- what backward gives --------------------------------------------------------------------------


def made(gives: Any, results: int = 1) -> Any:
    class Gives(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int = 0) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return gives(ct)

    return Gives


@pytest.mark.parametrize(
    ("gives", "error", "message"),
    [
        (lambda ct: (ct,), AutogradError, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda ct: (ct, ct), AutogradError, "different from None at position 1"),
        (lambda ct: (ct, None, ct), AutogradError, "expected 2, got 3"),
        (lambda ct: (1.0, None), DTypeError, "float at position 0"),
        (lambda ct: (sf.ones(5), None), ShapeError, r"index 0 - got \[5\].*compatible with \[2\]"),
    ],
)
def test_wrong_gradients_are_refused(gives: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"GivesBackward.*" + message) as caught:
        made(gives).apply(leaf(2), 3).sum().backward()
    assert "test_autograd_function.py" in str(caught.value)


def test_gradients_are_brought_to_the_argument() -> None:
    x = leaf(2)
    made(lambda ct: (sf.ones(3, 2), None, None)).apply(x, 0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3] and x.grad.dtype is sf.float64
    y = leaf(2)
    made(lambda ct: None).apply(y).sum().backward()
    assert y.grad is None


def test_gradients_that_the_user_holds_are_not_taken() -> None:
    held = sf.ones(2, dtype="float64")

    class Gives(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return held, held

    x, y = leaf(2), leaf(2)
    for _ in range(2):
        Gives.apply(x, y).sum().backward()
    assert held.tolist() == [1, 1] and x.grad.tolist() == y.grad.tolist() == [2, 2]


# -- twice ----------------------------------------------------------------------------------------


def test_a_second_backward_says_so() -> None:
    y = Exp.apply(leaf(2)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(AutogradError, match=r"Exp .*test_autograd_function\.py:\d+.*second time"):
        y.backward()
    z = made(lambda ct: ct).apply(leaf(2)).sum()
    z.backward()
    z.backward()  # nothing was saved


def test_once_differentiable() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, ct: Any) -> Any:
            (x,) = ctx.saved_tensors
            assert not (x * 2).requires_grad
            return sf.from_numpy(ct.detach().numpy() * 3 * x.detach().numpy() ** 2)

    x = leaf(2)
    assert gradcheck(Cube.apply, x)
    ct = sf.ones(2, dtype="float64", requires_grad=True)
    (g,) = sf.autograd.grad(Cube.apply(x), x, ct, create_graph=True)
    assert g.requires_grad
    with pytest.raises(AutogradError, match=r"Cube: trying to differentiate twice.*once_differ"):
        g.sum().backward()


# -- misuse ---------------------------------------------------------------------------------------


def test_misuse() -> None:
    class Half(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x / 2

    with pytest.raises(NotImplementedError, match="backward"):
        Half.apply(leaf(2)).sum().backward()

    class Saves(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, 3)

    with pytest.raises(TypeError, match=r"argument 1 is of type int.*test_autograd_function\.py"):
        Saves.apply(leaf(2))


def test_an_error_in_backward_names_where_it_was_applied() -> None:
    def fails(ct: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        made(fails).apply(leaf(2)).sum().backward()
    assert "GivesBackward" in caught.value.__notes__[0]
    assert "test_autograd_function.py" in caught.value.__notes__[0]


# -- memory ---------------------------------------------------------------------------------------


def test_it_is_freed_by_reference_counts_alone() -> None:
    gc.disable()
    try:
        x = leaf(2)
        y = Exp.apply(x)
        node = weakref.ref(y.grad_fn)
        array = weakref.ref(y.detach().numpy().base if y.detach().numpy().base is not None else y)
        del y
        assert node() is None and array() is None
    finally:
        gc.enable()


# -- in a graph -----------------------------------------------------------------------------------


def test_the_classics_are_traced() -> None:
    x = sf.placeholder((None, 3), "float64", "x")
    w, b = leaf(2, 3), leaf(2)
    y = ReLU.apply(Exp.apply(Linear.apply(x, w, b)) - 1)
    f = sf.compile([x], [y, *sf.grad(y.sum(), [x, w, b])])
    for rows in (0, 1, 4):
        data = leaf(rows, 3)
        eager = ReLU.apply(Exp.apply(Linear.apply(data, w, b)) - 1)
        wanted = [eager, *sf.grad(eager.sum(), [data, w, b])]
        for found, also in zip(f(data.detach()), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), also.detach().numpy(), atol=1e-12)
    assert f.compile_count == 1


def test_the_backward_of_the_user_is_what_a_graph_differentiates_with() -> None:
    class Lies(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.sin(), (x > 0), "text"

        @staticmethod
        def backward(ctx: Any, ct: Any, larger: Any, text: Any) -> Any:
            assert ctx.needs_input_grad == (True,) and text is None
            return ct * 7

    x = sf.placeholder((None,), name="x")
    y, larger, text = Lies.apply(x)
    f = sf.compile([x], [y, larger, sf.grad((y * y).sum(), x)])
    _, sign, slope = f(np.array([1.0, -2.0], np.float32))
    np.testing.assert_allclose(slope.numpy(), 14 * np.sin([1, -2]), rtol=1e-6)
    assert sign.tolist() == [True, False] and text == "text"


def test_under_jit_and_in_loops_and_in_second_order() -> None:
    f = sf.jit(lambda x: Exp.apply(x).sum())
    x = leaf(3)
    f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.detach().numpy()))
    v = sf.placeholder((None,), "float64", "v")
    last, _ = sf.scan(lambda c, _: (Exp.apply(c) * 0.5, None), v, None, length=2)
    g = sf.grad(last.sum(), v)
    h = sf.grad(g.sum(), v)
    program = sf.compile([v], [g, h])
    x = leaf(3)
    y = Exp.apply(Exp.apply(x) * 0.5) * 0.5
    (eager,) = sf.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = sf.autograd.grad(eager.sum(), x)
    for found, wanted in zip(program(x.detach()), (eager, second), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-12)


def test_dirty_symbols() -> None:
    x = sf.placeholder((2,), "float64", "x")
    y = x * 1
    assert Doubles.apply(y) is y
    f = sf.compile([x], [y, sf.grad((y * y).sum(), x)])
    assert [t.tolist() for t in f(np.array([1.0, 2.0]))] == [[2, 4], [8, 16]]


def test_what_cannot_be_traced_says_where() -> None:
    class ByNumpy(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, ct: Any) -> Any:
            return sf.from_numpy(ct.numpy() * 2)

    x = sf.placeholder((2,), name="x")
    with pytest.raises(sf.SymbolicError, match=r"test_autograd_function\.py:\d+"):
        ByNumpy.apply(x)

    class Once(ByNumpy):
        @staticmethod
        @once_differentiable
        def backward(ctx: Any, ct: Any) -> Any:
            return ct * 2

    g = sf.grad((Once.apply(x) * x).sum(), x)
    with pytest.raises(AutogradError, match="once_differentiable has no derivative"):
        sf.grad(g.sum(), x)
    with pytest.raises(AutogradError, match=r"expected 1, got 2.*test_autograd_function\.py"):
        made(lambda ct: (ct, ct)).apply(x)


def test_any_name_is_free_for_what_the_user_keeps() -> None:
    names = (
        "function",
        "name",
        "edges",
        "hooks",
        "serial",
        "locs",
        "tensor",
        "what",
        "node",
        "pull",
    )

    class Keeps(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            for name in names:
                setattr(ctx, name, f"my {name}")
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            assert [getattr(ctx, n) for n in names] == [f"my {n}" for n in names]
            return ct * 2

    x = leaf(2)
    y = Keeps.apply(x)
    assert y.grad_fn.node == "my node" and y.grad_fn.saved_tensors[0] is x
    assert y.grad_fn.needs_input_grad == (True,)
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2]


class Power(Function):
    @staticmethod
    def forward(x: Any, n: int = 2) -> Any:
        return x**n

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.n = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ct * ctx.n * x ** (ctx.n - 1), None


class Times(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return ct * ctx.factor, None


def test_keywords_and_defaults_take_their_places() -> None:
    x = sf.tensor([3.0], requires_grad=True)
    for y, wanted in [
        (Power.apply(x), 6),
        (Power.apply(x, n=3), 27),
        (Power.apply(n=1, x=x), 1),
        (Times.apply(x, factor=5.0), 5),
    ]:
        assert sf.autograd.grad(y.sum(), x)[0].tolist() == [wanted]
    symbol = sf.placeholder((1,), name="x")
    program = sf.compile([symbol], sf.grad(Power.apply(symbol, n=3).sum(), symbol))
    assert program(x.detach()).tolist() == [27]
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'facto'"):
        Times.apply(x, 1.0, facto=5.0)


def test_it_is_found_where_pytorch_has_it() -> None:
    from staticflow.autograd.function import once_differentiable as same

    assert same is once_differentiable
