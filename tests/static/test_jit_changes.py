"""Arguments that a jitted function changes in place: the caller sees what an eager call leaves."""

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.nn import functional as F


def _added(x, b):
    x += b
    return (x * b).sum()


def _twice(x, b):
    x.mul_(b).add_(1)
    return x.sin().sum(), x


def _nothing_returned(x, b):
    x.copy_(b * 2)


def _in_part(x, b):
    x[0] = b[1] * 3
    x[:, 1].mul_(x[:, 0])
    return (x * x).sum()


def _through_views(x, b):
    x.t()[0] += b.t()[1]
    x.view(-1)[1:3].zero_()
    return x


def _both(x, b):
    x += b
    b.sub_(x, alpha=2)
    return x.sum() + b.sum()


def _tree(pair, b=None):
    pair[1].add_(pair[0])
    return pair[1] * b


def _normalized(x, mean, var):
    return F.batch_norm(x, mean, var, training=True).sin().sum()


def _printed(x, b):
    sf.print("{}", x.sum())
    return x * b


def _array(n, *shape):
    return np.random.default_rng(n).standard_normal(shape).astype(np.float32)


PROGRAMS = {
    "added": (_added, 2),
    "twice, and returned": (_twice, 2),
    "nothing returned": (_nothing_returned, 2),
    "in part": (_in_part, 2),
    "through views": (_through_views, 2),
    "both": (_both, 2),
    "no change": (_printed, 2),
}


def _given(count, leaf):
    leaves = [sf.tensor(_array(i, 3, 2), requires_grad=leaf) for i in range(count)]
    return leaves, [w * 1 for w in leaves]


def _loss(result, given):
    parts = [*(result if isinstance(result, tuple) else (result,)), *given]
    return sum((v * v).sum() for v in parts if v is not None)


@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_results_and_gradients_are_those_of_the_eager_call(name, leaf, capsys):
    fn, count = PROGRAMS[name]
    found = []
    jitted = sf.jit(fn)
    for run in (fn, jitted):
        leaves, given = _given(count, leaf)
        for _ in range(2):
            result = run(*given)
        loss = _loss(result, given)
        grads = sf.autograd.grad(loss, leaves, allow_unused=True) if leaf else []
        values = [loss, *given, *grads]
        assert [g.requires_grad for g in given] == [leaf] * count
        # the tape has zeros for what was overwritten, a graph nothing
        found.append([0.0 if v is None else v.detach().numpy() for v in values])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, 1e-4, 1e-5)
    assert jitted.compile_count == 1


def test_what_is_returned_of_an_argument_that_was_changed_is_that_argument():
    x, b = sf.ones(2), sf.ones(2)
    assert sf.jit(_twice)(x, b)[1] is x


def test_arguments_in_trees_by_name_and_arrays_of_numpy():
    pair = (sf.ones(2), sf.tensor([1.0, 2.0]))
    assert sf.jit(_tree)(pair, b=sf.full((2,), 2.0)).tolist() == [4, 6]
    assert pair[1].tolist() == [2, 3]
    array = np.ones(3, np.float32)
    assert sf.jit(_added)(array, sf.ones(3)).item() == 6
    assert array.tolist() == [2, 2, 2]


def test_running_statistics_move_and_take_no_history():
    x = sf.tensor(_array(0, 4, 3), requires_grad=True)
    found = []
    for run in (_normalized, sf.jit(_normalized)):
        mean, var = sf.zeros(3), sf.ones(3)
        for _ in range(2):
            (grad,) = sf.autograd.grad(run(x, mean, var), x)
        assert not mean.requires_grad and not var.requires_grad
        found.append([v.detach().numpy() for v in (mean, var, grad)])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, 1e-4, 1e-5)


def test_a_view_given_changes_its_base():
    base = sf.zeros(3, 2, requires_grad=True) * 1
    sf.jit(lambda x, b: x.add_(b))(base[1], sf.tensor([1.0, 2.0]))
    assert base.tolist() == [[0, 0], [1, 2], [0, 0]]
    assert base.grad_fn.name() == "CopySlices"


def _refused(x, b, error, match):
    before = x.numpy().copy() if isinstance(x, sf.Tensor) and not x.requires_grad else None
    with pytest.raises(error, match=match):
        sf.jit(_added)(x, b)
    if before is not None:
        np.testing.assert_array_equal(x.numpy(), before)


def test_what_an_eager_change_refuses_is_refused_before_anything_is_done():
    b = sf.ones(3)
    leaf = sf.zeros(3, requires_grad=True)
    _refused(leaf, b, sf.AutogradError, "argument args.0. of a jitted function in place on a leaf")
    with sf.no_grad():
        assert sf.jit(_added)(leaf, b).item() == 3
    assert leaf.tolist() == [1, 1, 1]
    _refused(sf.zeros(1).expand(3), b, sf.AutogradError, "was expanded")
    fixed = np.zeros(3, np.float32)
    fixed.flags.writeable = False
    _refused(sf.from_numpy(fixed), b, sf.AutogradError, "read-only")


def test_operands_that_share_the_changed_memory_are_refused():
    x = sf.zeros(4)
    _refused(x, x, sf.SymbolicError, "would show in another argument.*pass a clone")
    _refused(x[:3], x[1:], sf.SymbolicError, "would show in another argument")
    rows = sf.zeros(2, 4)
    sf.jit(_added)(rows[0], rows[1])  # apart
    sf.jit(_added)(rows[:, ::2], rows[:, 1::2])
    with pytest.raises(sf.SymbolicError, match="would show in a tensor that it closes over"):
        sf.jit(lambda y: y.add_(x))(x)


def _turned(x):
    x.t_()
    return x * 1


def test_another_shape_in_place_is_refused():
    with pytest.raises(sf.ShapeError, match=r"makes f32.* of its argument args.0.*return the new"):
        sf.jit(_turned)(sf.ones(2, 3))
    with pytest.raises(sf.ShapeError):
        sf.jit(_added)(sf.ones(2), sf.ones(3))


def _inside_a_loop(x):
    def body(c, row):
        x.add_(1)
        return c + row, c

    return sf.scan(body, sf.zeros(2), x)[0]


def test_a_loop_that_changes_what_is_outside_is_refused():
    with pytest.raises(sf.SymbolicError, match="made outside of the function that is traced"):
        sf.jit(_inside_a_loop)(sf.ones(3, 2))


def test_a_placeholder_that_was_changed_is_no_input():
    x = sf.placeholder((2,), name="x")
    x += 1
    with pytest.raises(sf.SymbolicError, match="change a clone"):
        sf.compile([x], x * 2)


class Scaled(sf.nn.Module):
    """Reads numbers of its own, one of them in a function that it makes, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.power, self.kind, self.epoch, self.calls = 2.0, 1, "sum", 0, 0
        self.weight = sf.nn.Parameter(sf.ones(2))
        self.raised = lambda x: x**self.power

    def forward(self, x: Any) -> Any:
        self.calls += 1
        y = self.raised(x * self.weight * self.scale)
        return y.sum() if self.kind == "sum" else y.mean()


def test_jit_follows_the_numbers_of_modules_that_their_code_asks_for() -> None:
    model, x = Scaled(), sf.tensor([1.0, 3.0])
    f = sf.jit(lambda x: model(x) + 0)
    p = sf.placeholder((None,))
    fixed = sf.compile([p], model(p))  # keeps the numbers that it was written with
    changes = {"scale": 0.5, "power": 2, "kind": "mean"}
    for name, value in changes.items():
        for _ in range(2):
            assert f(x).item() == model(x).item()
        setattr(model, name, value)
    assert f(x).item() == model(x).item()
    assert fixed(x).item() == 8
    count = f.compile_count
    assert count == 1 + len(changes)
    model.epoch = 5  # of which no code asks
    assert f(x).item() == model(x).item() and f.compile_count == count


def test_jit_follows_what_else_a_module_has() -> None:
    class Layer(sf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act: Any = sf.relu
            self.mask: Any = None
            self.sizes = (1, 2)

        def forward(self, x: Any) -> Any:
            y = self.act(x) * self.sizes[0]
            return y if self.mask is None else y * self.mask

    layer, x = Layer(), sf.tensor([-1.0, 2.0])
    f = sf.jit(layer)
    changes = {
        "act": sf.tanh, "mask": sf.tensor([0.0, 1.0]), "sizes": (3, 1), "forward": lambda x: x + 1,
    }  # fmt: skip
    for name, value in changes.items():
        assert f(x).tolist() == layer(x).tolist()
        setattr(layer, name, value)
    assert f(x).tolist() == layer(x).tolist() == [0, 3]


def test_jit_follows_the_number_of_a_layer_of_the_library() -> None:
    layer, x = sf.nn.Dropout(0.5), sf.ones(100)
    f = sf.jit(layer)
    assert f(x).min() == 0
    layer.p = 0.0
    assert f(x).tolist() == x.tolist()


def test_jit_follows_the_dtype_of_a_module() -> None:
    model, x = sf.nn.Linear(3, 2), sf.ones(4, 3)
    f = sf.jit(model)
    assert f(x).dtype is sf.float32
    model.double()
    assert f(x.double()).dtype is sf.float64
    model.float()
    sf.testing.assert_close(f(x), model(x))


def test_what_detach_gives_in_a_forward_follows_its_tensor() -> None:
    class Frozen(sf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = sf.nn.Parameter(sf.ones(2))
            self.register_buffer("b", sf.ones(2))

        def forward(self, x: Any) -> Any:
            return x * self.w.detach() + self.b.data * self.w + (self.w * 2).detach()

    model, x = Frozen(), sf.ones(3, 2)
    p = sf.placeholder((None, 2))
    y = model(p)
    f, slope = sf.compile([p], y), sf.compile([p], sf.grad(y.sum(), model.w))
    for value in (1.0, 4.0):
        model.w.data, model.b.data = sf.full((2,), value), sf.full((2,), value)
        assert f(x).tolist() == model(x).tolist() == sf.jit(model)(x).tolist()
        assert slope(x).tolist() == [3 * value] * 2
