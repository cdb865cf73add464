"""Models of PyTorch taken over: values, gradients and updated buffers are PyTorch's, eagerly and
compiled, at several sizes, and whatever cannot be taken over says so.
"""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slices import daily

import staticflow as sf

torch = pytest.importorskip("torch", reason='modules of PyTorch: pip install "staticflow[torch]"')

from torch_models import Model  # noqa: E402
from torch_tutorials import MODELS  # noqa: E402

SIZES = (4, 6)
leaves_of = torch.utils._pytree.tree_leaves


def weighted(x: Any) -> Any:
    """A scalar that each element of ``x`` moves in its own way."""
    return (x * 2).sin().reshape(-1).cumsum(0).mean() + x.square().mean()


def loss_of(outputs: Any) -> Any:
    return sum(weighted(x) for x in outputs)


def agree(actual: Any, wanted: Any, dtype: str, what: str = "") -> None:
    """Both have the same values, up to a part of the largest."""
    bound = 1e-10 if dtype == "float64" else 3e-4
    wanted = wanted.detach().numpy()
    largest = np.abs(wanted).max(initial=1e-2)
    np.testing.assert_allclose(actual.detach().numpy(), wanted, 0, bound * largest, err_msg=what)


def given(model: Model, size: int, dtype: str) -> tuple[Any, ...]:
    torch.manual_seed(size)
    kind = getattr(torch, dtype)
    return tuple(a.to(kind) if a.is_floating_point() else a for a in model.arguments(size))


def take_over(model: Model, dtype: str, **options: Any) -> tuple[Any, Any]:
    """The module of PyTorch and ours."""
    torch.manual_seed(0)
    theirs = model.make().to(getattr(torch, dtype)).train(model.training)
    size = torch.export.Dim("n", min=2, max=8)
    shapes = tuple(dict.fromkeys(dims, size) for dims in model.open_dims)
    if hasattr(theirs, "in_proj_weight"):  # nn.MultiheadAttention, whose forward has more arguments
        shapes = dict(zip(("query", "key", "value"), shapes, strict=True))
    ours = sf.torch.from_module(theirs, given(model, 5, dtype), dynamic_shapes=shapes, **options)
    return theirs, ours


def gradients(theirs: Any, args: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    theirs.zero_grad()
    outputs = leaves_of(theirs(*args))
    loss_of(outputs).backward()
    return outputs, {n: p.grad for n, p in theirs.named_parameters() if p.grad is not None}


def program_of(model: Model, ours: Any, dtype: str) -> Any:
    """A program that gives the outputs and the gradients, for all sizes."""
    inputs = []
    for i, (array, dims) in enumerate(zip(given(model, 5, dtype), model.open_dims, strict=True)):
        shape = ["n" if d in dims else size for d, size in enumerate(array.shape)]
        kind = str(array.dtype).removeprefix("torch.")
        inputs.append(sf.placeholder(shape, kind, f"x{i}"))
    outputs = leaves_of(ours(*inputs))
    parameters = [p for _, p in ours.named_parameters()]
    found = sf.grad(loss_of(outputs), parameters, allow_unused=True)
    return sf.compile(inputs, [*outputs, *(g for g in found if g is not None)])


CASES = [(name, dtype) for name in MODELS for dtype in ("float32", "float64")]


@pytest.mark.parametrize(("name", "dtype"), daily(CASES, 5, "torch models"))
def test_a_model_is_pytorchs_in_both_modes(name: str, dtype: str) -> None:
    check_model(name, dtype)


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_model_is_pytorchs_in_both_modes(name: str, dtype: str) -> None:
    check_model(name, dtype)


def check_model(name: str, dtype: str) -> None:
    model = MODELS[name]
    theirs, ours = take_over(model, dtype, copy=True)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for size in SIZES:
        args = given(model, size, dtype)
        wanted, wanted_gradients = gradients(theirs, args)
        ours.zero_grad()
        actual = leaves_of(ours(*map(sf.from_dlpack, args)))
        assert len(actual) == len(wanted)
        loss_of(actual).backward()
        for a, w in zip(actual, wanted, strict=True):
            agree(a, w, dtype)
        own = {n: p.grad for n, p in ours.named_parameters() if p.grad is not None}
        assert own.keys() == wanted_gradients.keys()
        for n, w in wanted_gradients.items():
            agree(own[n], w, dtype, n)
    program = program_of(model, ours, dtype)
    for size in SIZES:
        args = given(model, size, dtype)
        wanted, wanted_gradients = gradients(theirs, args)
        found = program(*args)
        for a, w in zip(found, [*wanted, *wanted_gradients.values()], strict=True):
            agree(a, w, dtype)
    for n, w in theirs.state_dict().items():
        agree(ours.state_dict()[n], w, dtype, n)


def test_memory_is_shared_unless_copied() -> None:
    theirs, ours = take_over(MODELS["mlp"], "float32")
    _, copied = take_over(MODELS["mlp"], "float32", copy=True)
    with torch.no_grad():
        theirs[0].weight.fill_(3)
    assert ours.state_dict()["0.weight"].tolist() == [[3.0] * 3] * 4
    assert copied.state_dict()["0.weight"].tolist() != [[3.0] * 3] * 4


def test_a_compiled_step_trains_the_module_of_pytorch() -> None:
    theirs, ours = take_over(MODELS["mlp"], "float32")
    x = sf.placeholder(("n", 3), name="x")
    loss = (ours(x) - 1).square().mean()
    step = sf.compile([x], loss, updates=sf.optim.SGD(ours.parameters(), 0.1).minimize(loss))
    args = given(MODELS["mlp"], 6, "float32")
    losses = [step(*args).item() for _ in range(20)]
    assert losses[-1] < losses[0] / 4
    now = (theirs(*args) - 1).square().mean().item()
    assert now < losses[-1]


def test_shared_parameters_are_one() -> None:
    _, ours = take_over(MODELS["gpt"], "float32")
    assert ours.head.weight is ours.wte.weight
    assert "mask" not in ours.state_dict()
    assert repr(ours).startswith("Imported(\n  of=GPT, training")


def test_dropout_draws_anew_in_training() -> None:
    ours = sf.torch.from_module(torch.nn.Dropout(0.25), (torch.ones(1000),))
    a, b = ours(sf.ones(1000)), ours(sf.ones(1000))
    assert set(np.round(a.numpy(), 5)) == {0.0, np.float32(1.33333)}
    assert 0.7 < (a != 0).float().mean().item() < 0.8
    assert not sf.equal(a, b)


class Loop(torch.nn.Module):
    def forward(self, x: Any, scale: int = 2, *, other: Any = None) -> Any:
        y = x * scale
        return y if other is None else y + other


def test_arguments_are_those_of_the_example() -> None:
    x = torch.ones(3)
    ours = sf.torch.from_module(Loop(), (x, 3), {"other": x})
    t = sf.ones(3)
    assert ours(t, 3, other=t).tolist() == ours(t, scale=3, other=t).tolist() == [4.0] * 3
    with pytest.raises(sf.ArgumentError, match="scale is 4, and the module was exported with 3"):
        ours(t, 4, other=t)
    with pytest.raises(sf.ArgumentError, match=r"with \(x, scale, other=\)"):
        ours(t, 3)
    with pytest.raises(sf.ShapeError, match=r"x is of shape \[4\].*exported for \[3\]"):
        ours(sf.ones(4), 3, other=t)
    with pytest.raises(sf.DTypeError, match="x is float64, and the module was exported for"):
        ours(sf.ones(3, dtype="float64"), 3, other=t)
    with pytest.raises(sf.DTypeError, match=r"sf\.from_dlpack"):
        ours(x, 3, other=t)


def test_bounds_of_open_sizes_hold() -> None:
    size = torch.export.Dim("n", min=3, max=5)
    ours = sf.torch.from_module(torch.nn.ReLU(), (torch.ones(4),), dynamic_shapes=({0: size},))
    x = sf.placeholder((None,), name="x")
    for form in (ours, sf.compile([x], ours(x)), sf.jit(ours)):
        assert form(sf.ones(5)).shape == (5,)
        for size in (2, 6):
            with pytest.raises(sf.ShapeError, match=r"exported for .* from 3 to 5"):
                form(sf.ones(size))


def test_jit_takes_an_imported_module() -> None:
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Flatten(0))
    ours = sf.torch.from_module(theirs, torch.ones(2, 4))
    x = torch.randn(2, 4)
    loss = sf.jit(lambda x: ours(x).square().mean())
    loss(x).backward()
    found = [p.grad.numpy() for p in ours.parameters()]
    theirs(x).square().mean().backward()
    for gradient, p in zip(found, theirs.parameters(), strict=True):
        np.testing.assert_allclose(gradient, p.grad.numpy(), 1e-5, 1e-7)
    with pytest.raises(sf.ShapeError, match=r"dim 1 of input, exported for \[2, 4\]; .* is 5"):
        loss(sf.ones(2, 5))
    with pytest.raises(sf.ShapeError, match=r"dim 0 of input, exported for \[2, 4\]; .* is 3"):
        loss(sf.ones(3, 4))


class Halves(torch.nn.Module):
    def forward(self, long: Any, short: Any) -> Any:
        return long[1:].view(2, -1) + short


def test_sizes_that_are_computed_of_others_hold() -> None:
    n = torch.export.Dim("n")
    example = (torch.ones(9), torch.ones(4))
    shapes = ({0: 2 * n + 1}, {0: n})
    ours = sf.torch.from_module(Halves(), example, dynamic_shapes=shapes)
    long, short = (sf.placeholder((None,), name=name) for name in ("long", "short"))
    forms = (ours, sf.compile([long, short], ours(long, short)), sf.jit(ours))
    for form in forms:
        assert form(sf.ones(7), sf.ones(3)).tolist() == [[2.0] * 3] * 2
        for sizes in ((7, 1), (7, 4), (8, 3)):  # the first would stretch, and the last be cut off
            with pytest.raises(sf.ShapeError, match=r"the module was exported|, exported for"):
                form(*map(sf.ones, sizes))


def test_an_imported_module_has_one_mode() -> None:
    ours = sf.torch.from_module(torch.nn.Dropout().eval(), (torch.ones(3),))
    assert ours.eval() is ours and not ours.training
    with pytest.raises(sf.ArgumentError, match="was exported in evaluation"):
        ours.train()


class Strange(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y = torch.special.bessel_j0(x)
        return torch.fft.fft(y).abs() + torch.special.zeta(x, y)


def test_operations_without_a_meaning_are_listed_with_their_lines() -> None:
    with pytest.raises(sf.SymbolicError) as caught:
        sf.torch.from_module(Strange(), (torch.ones(3),))
    text = str(caught.value)
    assert "special_bessel_j0" in text and "_fft_r2c" in text and "special_zeta" in text
    line = Strange.forward.__code__.co_firstlineno + 1
    assert f"test_torch_models.py:{line}" in text and f"test_torch_models.py:{line + 1}" in text
    assert "there are no complex tensors" in text


class Windows(torch.nn.Module):
    def __init__(self, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> None:
        super().__init__()
        self.asked = size, stride, offset

    def forward(self, x: Any) -> Any:
        return x.as_strided(*self.asked) * 2


def test_strides_that_say_where_all_elements_lie() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for size, stride in (
        ((3, 2), (1, 3)),
        ((3, 2), (2, 1)),
        ((6, 1), (1, 7)),
        ((2, 1, 3), (3, 3, 1)),
    ):
        theirs = Windows(size, stride, None)
        for example in (x, x.reshape(3, 2).t()):
            found = sf.torch.from_module(theirs, example)(sf.as_tensor(example))
            assert found.tolist() == theirs(example).tolist()
    for wrong in (
        ((2, 2), (1, 1), None), ((5,), (1,), None), ((5,), (1,), 1), ((2, 3), (0, 1), None),
        ((3,), (2,), None),
    ):  # fmt: skip
        with pytest.raises(sf.SymbolicError, match=r"as_strided.* a graph knows no strides"):
            sf.torch.from_module(Windows(*wrong), x)


class Untracked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            scale = x * self.weight
            both = scale.exp(), scale.sum()
        return (x * self.weight).detach() * self.weight + both[0] + both[1] * x


def test_what_pytorch_does_not_track_has_no_gradient() -> None:
    theirs = Untracked()
    x = torch.tensor([0.5, 0.25], requires_grad=True)
    ours = sf.torch.from_module(theirs, (x,), copy=True)
    y = sf.tensor([0.5, 0.25], requires_grad=True)
    theirs(x).sum().backward()
    ours(y).sum().backward()
    agree(ours.weight.grad, theirs.weight.grad, "float32")
    agree(y.grad, x.grad, "float32")


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 7


class Rounded(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return Straight.apply(x)


class Checkpointed(torch.nn.Module):
    reentrant = False

    def forward(self, x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=self.reentrant)


def test_derivatives_that_an_export_loses_are_refused() -> None:
    apply = torch.autograd.Function.apply
    with pytest.raises(sf.SymbolicError, match=r"Rounded applies Straight, .* does not keep"):
        sf.torch.from_module(Rounded(), (torch.ones(3),))
    assert torch.autograd.Function.apply == apply
    again = Checkpointed()
    again.reentrant = True
    with pytest.raises(sf.SymbolicError, match=r"applies CheckpointFunction.*use_reentrant=False"):
        sf.torch.from_module(again, (torch.ones(3),))
    ours = sf.torch.from_module(Checkpointed(), (torch.ones(3),))
    x = sf.ones(3, requires_grad=True)
    ours(x).sum().backward()
    agree(x.grad, torch.ones(3).cos(), "float32")


def test_the_programs_of_the_page_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
    names: dict[str, Any] = {"sf": sf, "torch": torch, "theirs": theirs}
    exec("\n".join(programs), names)
    before = [p.clone() for p in theirs.parameters()]
    loss = names["step"](torch.ones(7, 4)).item()
    assert loss > 0 and not torch.equal(before[0], theirs[0].weight)
    given = torch.randn(5, 4)
    torch.testing.assert_close(names["fast"](given), theirs(given))


class Solved(torch.nn.Module):
    """What checks itself, in an order that PyTorch keeps by tokens; with a buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(3) * 2 + 0.5)
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: Any) -> Any:
        y = self.norm(torch.linalg.solve(self.weight, x.mT).mT)
        return y @ torch.linalg.inv(self.weight), torch.linalg.det(self.weight)


@pytest.mark.parametrize("training", [False, True])
def test_checks_that_pytorch_keeps_in_order(training: bool) -> None:
    theirs = Solved().train(training)
    ours = sf.torch.from_module(theirs, (torch.ones(4, 3),), copy=True)
    x = torch.randn(4, 3)
    wanted, actual = theirs(x), ours(sf.tensor(x))
    sum(v.sin().sum() for v in wanted).backward()
    sum(v.sin().sum() for v in actual).backward()
    for a, w in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), w.detach().numpy(), rtol=1e-4, atol=1e-5)
    given = sf.placeholder((4, 3), name="x")
    (found,) = sf.compile(
        [given], [sf.grad(sum(v.sin().sum() for v in ours(given)), [ours.weight])[0]]
    )(x)
    for a in (ours.weight.grad, found):
        np.testing.assert_allclose(a.numpy(), theirs.weight.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_a_lazy_module_must_have_been_called() -> None:
    module = torch.nn.LazyLinear(2)
    with pytest.raises(sf.ArgumentError, match="the shape of 'weight' is not known yet"):
        sf.torch.from_module(module, (torch.ones(3),))
    module(torch.ones(3))
    assert sf.torch.from_module(module, (torch.ones(3),))(sf.ones(3)).shape == (2,)


class Writing(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        x.add_(1)
        return x * 2


class Scaling(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.w.copy_(self.w / self.w.norm())
        return self.w * x


def test_what_cannot_be_taken_over_says_so() -> None:
    with pytest.raises(
        sf.ArgumentError, match=r"cannot export Linear on these examples: .*at .*\.py:"
    ):
        sf.torch.from_module(torch.nn.Linear(3, 2), torch.ones(2, 5))
    with pytest.raises(sf.ArgumentError, match=r"too many positional arguments \(they are one"):
        sf.torch.from_module(torch.nn.Linear(3, 2), [torch.ones(2, 3)] * 2)
    with pytest.raises(sf.DTypeError, match=r"a torch\.export\.ExportedProgram, not function"):
        sf.torch.from_module(given, (torch.ones(3),))
    with pytest.raises(sf.ArgumentError, match="changes its argument 'x' in place"):
        sf.torch.from_module(Writing(), (torch.ones(3),))
    with pytest.raises(sf.ArgumentError, match=r"its parameter 'w' in place; .* torch.compile\("):
        sf.torch.from_module(Scaling(), (torch.ones(3),))


def test_a_state_dict_loads_into_modules_of_ours() -> None:
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    ours = sf.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    ours.load_state_dict(theirs.state_dict(keep_vars=True))
    x = torch.randn(2, 3, 8)
    agree(ours(sf.from_dlpack(x)), theirs(x), "float32")
    twin = copy.deepcopy(theirs).bfloat16()
    ours.bfloat16().load_state_dict(twin.state_dict())
    for name, value in twin.state_dict().items():
        assert ours.state_dict()[name].float().tolist() == value.float().tolist()


def check_copies(name: str) -> None:
    """A deep copy and a pickle compute what the module does, on memory of their own."""
    model = MODELS[name]
    _, ours = take_over(model, "float32")
    args = [sf.as_tensor(a) for a in given(model, 5, "float32")]
    state = {n: v.clone() for n, v in ours.state_dict().items()}
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        outputs = []
        for module in (ours, other):
            module.load_state_dict(state)
            sf.manual_seed(3)
            outputs.append(leaves_of(module(*args)))
        for mine, its in zip(*outputs, strict=True):
            assert mine.tolist() == its.tolist()
        for parameter in other.parameters():
            parameter.detach().zero_()
        ours.load_state_dict(state)
        assert all(v.tolist() == state[n].tolist() for n, v in ours.state_dict().items())


@pytest.mark.parametrize("name", daily(list(MODELS), 2, "copies of imported modules"))
def test_a_module_is_copied_and_pickled(name: str) -> None:
    check_copies(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", MODELS)
def test_every_module_is_copied_and_pickled(name: str) -> None:
    check_copies(name)


def test_an_average_is_kept_of_an_imported_module() -> None:
    """`AveragedModel` copies its module deeply; pooling of memory by channels is taken by strides."""

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 2, 1)

        def forward(self, x: Any) -> Any:
            x = self.conv(x).contiguous(memory_format=torch.channels_last)
            return {"y": torch.nn.functional.max_pool2d(x, 2) * torch.ones(1).add(1)}

    ours = sf.torch.from_module(Pooled(), torch.ones(2, 3, 4, 4))
    x = sf.randn(2, 3, 4, 4)
    for other in (sf.optim.swa_utils.AveragedModel(ours), pickle.loads(pickle.dumps(ours))):
        assert other(x)["y"].tolist() == ours(x)["y"].tolist()
