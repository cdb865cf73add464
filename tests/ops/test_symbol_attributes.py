"""A symbol has every public attribute of an eager tensor, or an error that says why not."""

import copy
import pathlib

import pytest

import staticflow as sf
from staticflow.ops.symbols.attributes import REFUSED

# what the tape asks of a leaf, and what is refused when it is asked
APART = {"serial", "requires_grad"}

PUBLIC = [n for n in dir(sf.Tensor) if not n.startswith("_") and n not in APART]


def test_an_attribute_of_tensors_is_one_of_symbols():
    x, eager = sf.placeholder((2, 2), name="x"), sf.ones(2, 2)
    for name in PUBLIC:
        if name not in REFUSED:
            assert callable(getattr(x, name)) == callable(getattr(eager, name)), name


def test_an_attribute_that_symbols_do_not_have_says_why():
    x, file = sf.placeholder((2, 2), name="x"), pathlib.Path(__file__).name
    for name in REFUSED:
        assert name in dir(sf.Tensor)
        assert not hasattr(x, name)
        with pytest.raises(sf.SymbolicError, match=f"^{name} of a symbolic value: .*, at .*{file}"):
            getattr(x, name)


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'Symbol' object has no attribute 'foo'"):
        _ = sf.placeholder((2,)).foo


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.device,
        lambda x: (x.is_cuda, x.is_cpu, x.get_device(), x.is_sparse, x.is_inference()),
        lambda x: (x.element_size(), x.itemsize, x.nbytes),
        lambda x: x.type(),
        lambda x: x.cpu().shape,
    ],
)
def test_what_is_known_is_what_a_tensor_answers(ask):
    assert ask(sf.placeholder((2, 3), "float64")) == ask(sf.zeros(2, 3, dtype=sf.float64))


def _renamed(x):
    x.detach_()
    return x * x


@pytest.mark.parametrize(
    ("fn", "slope"),
    [
        (lambda x: x * x.data, [1, 2]),
        (_renamed, [0, 0]),
        (lambda x: x * copy.copy(x), [2, 4]),
        (lambda x: copy.deepcopy(x).add_(1) * x, [3, 5]),
        (lambda x: x * x.new_tensor([3, 4.0]), [3, 4]),
        (lambda x: x * next(iter(reversed(x))), [2, 5]),
    ],
)
def test_in_a_graph_they_compute(fn, slope):
    x = sf.placeholder((2,), name="x")
    loss = fn(x.clone() if fn is _renamed else x).sum()
    found = sf.grad(loss, x, allow_unused=True)
    found = sf.zeros(2) if found is None else sf.compile([x], found)(sf.tensor([1.0, 2.0]))
    assert found.tolist() == slope


def test_formatting():
    x = sf.placeholder(("N", 3), name="x")
    assert f"{x}" == repr(x) and f"{x.shape[0]}" == "N"
    with pytest.raises(sf.SymbolicError, match=r"no digits to format by '.3f'.*sf\.print"):
        f"{x:.3f}"
    with pytest.raises(sf.SymbolicError, match=r"no digits to format by 'd'.*sf\.print"):
        f"{x.shape[0]:d}"


@pytest.mark.parametrize(
    "assign",
    [
        lambda x: setattr(x, "data", sf.ones(2)),
        lambda x: setattr(x, "requires_grad", True),
        lambda x: x.requires_grad_(),
    ],
)
def test_what_cannot_be_assigned_says_what_to_write(assign):
    with pytest.raises(sf.SymbolicError, match=r"of a symbolic value: .*; write|sf\.grad\(loss"):
        assign(sf.placeholder((2,)))
