"""Every public function of ops, and every method, refuses arguments of a wrong kind with an error of
ours, which says the user's line."""

from __future__ import annotations

import copy
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from wrong_arguments import CALLS, KINDS, SYMBOLIC, Call

import staticflow as sf
from staticflow import nn, pytree

F = sf.nn.functional
X = sf.ones(3, 3)


@pytest.mark.filterwarnings("ignore:.* are broadcast")
@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_a_wrong_kind_is_refused_in_words(name: str) -> None:
    call = CALLS[name]
    call.run(call.arguments())
    for argument, kind in call.wrong(4):
        assert _is_refused_in_words(call, {**call.arguments(), argument: KINDS[kind]()})


def _is_refused_in_words(call: Call, given: Mapping[str, Any]) -> bool:
    """Whether it is, with the line (a wrong number of arguments as a `TypeError`), or is taken, as
    numbers are beside tensors."""
    try:
        call.run(given)
    except (sf.StaticflowError, TypeError) as error:
        in_words = isinstance(error, sf.StaticflowError) or "missing 1 required" in str(error)
        return in_words and re.search(r", at \S*wrong_arguments\.py:\d+", str(error)) is not None
    return True


RANDOM = {
    "bernoulli",
    "dropout",
    "exponential",
    "normal",
    "random",
    "uniform",
    "multinomial",
    "rand_like",
}
IN_PLACE = [n for n in CALLS if n.endswith("_") and n[:-1] in CALLS]


@pytest.mark.parametrize("name", [n for n in IN_PLACE if n[2:-1] not in RANDOM])
def test_an_in_place_form_stores_what_the_method_gives(name: str) -> None:
    call, plain = CALLS[name], CALLS[name[:-1]]
    arguments = call.arguments()
    x = next(iter(arguments.values()))
    wanted = plain.run(plain.arguments())
    assert call.run(arguments) is x
    sf.testing.assert_close(x, wanted.to(x.dtype), equal_nan=True)


OTHERWISE = {"sf.polygamma", "sf.split", "sf.where"}  # whose arguments stand in another order
BOTH = [n for n in CALLS if n.startswith("sf.") and f"m.{n[3:]}" in CALLS and n[3:] not in RANDOM]


@pytest.mark.parametrize("name", [n for n in BOTH if n not in OTHERWISE])
def test_a_function_and_the_method_of_its_name_give_the_same(name: str) -> None:
    call, method = CALLS[name], CALLS[f"m.{name[3:]}"]
    assert [p.name for p in call.parameters[1:]] == [p.name for p in method.parameters[1:]]
    one, other = (pytree.flatten(c.run(c.arguments()))[0] for c in (call, method))
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        sf.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_symbols_refuse_it_as_well() -> None:
    for call in SYMBOLIC:
        try:
            call.run(call.arguments())
        except sf.StaticflowError:  # what has no symbolic form
            continue
        for argument, kind in call.wrong(2):
            given = {**call.arguments(), argument: KINDS[kind]()}
            assert _is_refused_in_words(call, given), f"{call}, {argument}, {kind}"


SAYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dim": (lambda x: x.sum("rows"), "sum: 'dim' must be int | Sequence[int] | None, not 'rows'"),
    "by NumPy's name": (lambda x: x.std(axis="a"), "std: 'dim' must be int | Sequence[int] | None | bool"),
    "reduction": (lambda x: F.mse_loss(x, x, 3), "reduced by \"mean\", \"sum\" or \"none\", not 3"),
    "module": (lambda x: F.linear(x, sf.nn.Linear(3, 3)), "linear: 'weight' must be a tensor, not Linear"),
    "number": (lambda x: F.linear(x, 3), "linear: 'weight' must be a tensor, not int"),
    "of a loss": (lambda x: F.mse_loss(x, None), "mse_loss: 'target' must be a tensor, not NoneType"),
    "in place": (lambda x: x.clamp_(min="low"), "clamp_: 'min' must be a tensor, not 'low'"),
    "a size": (lambda x: sf.zeros(2, "a"), "zeros: 'sizes[1]' must be an integer, not 'a'"),
    "an index": (lambda x: x.select(sf.ones(2), 0), "select: 'dim' must be an integer, not f32[2]"),
    "a dtype": (lambda x: sf.sum(x, dtype=3), "sum: 'dtype' must be one of the dtypes bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, not int"),
    "mm": (lambda x: x.mm(3), "mm: 'mat2' must be a tensor, not int"),
    "inside": (lambda x: sf.cat([x, 3]), "cat: entry 1 is an int"),
    "what none names": (lambda x: sf.float_power(x, [2]), "float_power(input=f32[3, 3], exponent=[2]): "),
    "line of NumPy's caller": (lambda x: sf.tril_indices(x, 3), "tril_indices: 'row' must be an integer"),
    "layer": (lambda x: sf.nn.Linear(3, 3)([1.0]), "Linear: 'input' must be a tensor, not list"),
    "too few": (lambda x: sf.chunk(x), "chunk() missing 1 required positional argument: 'chunks'"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAYS)
def test_the_error_says_what_is_wanted(case: str) -> None:
    call, says = SAYS[case]
    with pytest.raises(
        (TypeError, ValueError), match=r", at \S*test_wrong_arguments\.py:\d+"
    ) as error:
        call(X)
    assert says in str(error.value)


def test_symbols_say_it_in_the_same_words() -> None:
    x = sf.placeholder((None, 3), name="x")
    with pytest.raises(sf.DTypeError, match=r"sum: 'dim' must be int .*, not 'rows'"):
        x.sum("rows")
    with pytest.raises(sf.SymbolicError, match="add: object cannot stand in a symbolic expression"):
        operator.add(x, object())  # for `+`, type checkers know better


def test_the_error_of_a_function_of_the_users_stays_what_it_is() -> None:
    def distance(x: Any, y: Any) -> Any:
        return {}["none"]

    with pytest.raises(KeyError, match="none"):
        F.triplet_margin_with_distance_loss(X, X, X, distance_function=distance)


def test_the_cause_is_kept_where_no_argument_is_to_blame() -> None:
    with pytest.raises(sf.DTypeError) as error:
        sf.float_power(X, [2])
    assert isinstance(error.value.__cause__, TypeError)


class _Counting(nn.Module):
    """It assigns a buffer as it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", sf.zeros(1))

    def forward(self, x: Any) -> Any:
        """``x`` times the sum of all that came."""
        self.count = self.count + x.sum()
        return x * self.count


BLAMED = {
    "None beside another None": (lambda: sf.randint(3, (2,), dtype=None), "'dtype' must be one of"),
    "0 beside another 0": (lambda: sf.randint(0, 3, (2,), dtype=0), "'dtype' must be one of"),
    "a key": (lambda: nn.ModuleDict({np.int64: nn.ReLU()}), "a key is a str, not type"),
    "the primals": (
        lambda: sf.func.jvp(sf.sin, sf.ones(2), sf.ones(2)),
        "the primals are a Tensor",
    ),
    "sizes of a tensor": (lambda: sf.Tensor(2**62), "Tensor of the sizes .* at most 64 dims"),
    "no memory": (
        lambda: sf.randn(2**62, dtype=sf.float16),
        r"randn\(.*Unable to allocate|at most",
    ),
    "an argument by number": (
        lambda: sf.func.grad(sf.sum, argnums=("x",))(sf.ones(2)),
        "argnums must be the number of an argument",
    ),
    "a slice of modules": (
        lambda: nn.ModuleList([nn.ReLU()]).__setitem__(slice(0, 1), nn.ReLU()),
        "one entry is assigned at a time, by an integer",
    ),
    "an element that is deleted": (lambda: operator.delitem(sf.ones(2), 0), "choose those that"),
    "None in a tensor": (lambda: None in sf.placeholder((2,)), "is a number or a tensor"),
    "dims without end": (
        lambda: operator.setitem(sf.ones(3), (None,) * 70, 1.0),
        "an array has at most 64 dims",
    ),
    "a pretrained matrix": (
        lambda: nn.Embedding.from_pretrained(sf.ones(3, 2), padding_idx="x"),
        "Embedding.from_pretrained: 'padding_idx' must be int",
    ),
    "a rate of none": (
        lambda: sf.optim.SGD([sf.ones(2, requires_grad=True)], lr=()),
        "SGD: 'lr' must be float",
    ),
    "groups": (
        lambda: setattr(sf.optim.SGD([sf.ones(2, requires_grad=True)]), "param_groups", [3]),
        "param_groups is a list of groups",
    ),
    "trees of two structures": (
        lambda: pytree.map_tree(max, (1, 2), [1, 2]),
        "the trees differ in structure",
    ),
    "a structure": (lambda: pytree.unflatten((1, 2), [1, 2]), "the structure is a TreeDef"),
    "no size to divide by": (
        lambda: sf.placeholder((None,), name="x").shape[0] % 0,
        "x_0 is divided by zero",
    ),
    "lists in each other": (
        lambda: sf.testing.assert_close(
            *[functools.reduce(lambda x, _: [x], range(3000), 1.0)] * 2
        ),
        "more than 100 containers",
    ),
    "tolerances": (lambda: sf.linalg.matrix_rank(sf.eye(2), 0.1, atol=0.1), "give one of them"),
    "the tape beside a mask": (
        lambda: np.ma.masked_array(np.ones(2)) * sf.ones(2, requires_grad=True),
        "requires a gradient",
    ),
    "a layer in a trace": (
        lambda: sf.jit(lambda x: nn.Linear(2, 2)(x))(sf.ones(3, 2)),
        "make the layer or the parameter outside",
    ),
    "a buffer in a trace": (
        lambda: sf.jit(_Counting())(sf.ones(2)),
        "_Counting.count is a tensor.*assign it after",
    ),
    "a switch": (
        lambda: sf.optim.SGD([sf.ones(2, requires_grad=True)]).zero_grad(np.ones(2)),
        "'set_to_none' must be bool, not ndarray",
    ),
    "what cannot be copied": (
        lambda: nn.Transformer(4, 2, 1, 1, 8, norm_first=(i for i in range(3))),
        "Transformer.*generator",
    ),
}


@pytest.mark.parametrize("name", BLAMED)
def test_the_argument_that_is_wrong_is_named(name: str) -> None:
    call, message = BLAMED[name]
    with pytest.raises(
        (sf.StaticflowError, MemoryError), match=rf"{message}.*test_wrong_arguments.py"
    ):
        call()


def test_what_fails_changes_nothing() -> None:
    """No module is cast and nothing is drawn where the call fails."""
    layer, x = nn.Linear(2, 2), sf.placeholder((2,), name="x")
    with pytest.raises(sf.StaticflowError):
        sf.float_power(layer, 2)
    with pytest.raises(sf.StaticflowError):
        sf.float_power(x, layer)
    assert layer.weight.dtype is sf.float32
    before = sf.get_rng_state().tolist()
    for draw in (
        sf.Tensor.uniform_,
        sf.Tensor.normal_,
        sf.Tensor.exponential_,
        sf.Tensor.bernoulli_,
    ):
        with pytest.raises(sf.StaticflowError):
            draw(sf.ones(2), x)
    assert sf.get_rng_state().tolist() == before


SWITCHES = {
    "enabled": [sf.set_grad_enabled, lambda v: sf.fork_rng(v).__enter__()],
    "mode": [sf.inference_mode, sf.autograd.set_detect_anomaly, nn.Linear(2, 2).train],
    "training": [lambda v: setattr(nn.Linear(2, 2), "training", v)],
    "requires_grad": [
        lambda v: nn.Parameter(sf.ones(2), v),
        lambda v: setattr(sf.ones(2), "requires_grad", v),
    ],
    "has_aux": [
        lambda v: sf.func.jvp(sf.sin, (sf.ones(2),), (sf.ones(2),), has_aux=v),
        lambda v: sf.func.grad(sf.sum, has_aux=v)(sf.ones(2)),
    ],
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_a_bool(name: str) -> None:
    """Nothing else is kept as the state of a thread or module, where later calls would fail."""
    for switch in SWITCHES[name]:
        for value in (np.ones(2), "on", sf.tensor([True, False]), None):
            with pytest.raises(sf.DTypeError, match=f"{name}.* must be bool.*{__file__}"):
                switch(value)
        switch(np.bool_(name != "has_aux"))
    assert sf.is_grad_enabled() is True
    sf.autograd.set_detect_anomaly(False)


def test_a_line_is_the_users_behind_modules_of_python() -> None:
    """Such as contextlib, which enters a block that is a generator."""
    with pytest.raises(sf.DTypeError, match=__file__), sf.fork_rng([]):
        pass
    with pytest.raises(sf.StaticflowError, match=f"at {__file__}"):
        copy.deepcopy(sf.ones(2, requires_grad=True) * 2)


@pytest.mark.parametrize("block", [sf.set_grad_enabled, sf.autograd.set_detect_anomaly])
def test_a_block_may_be_entered_again(block: Any) -> None:
    """And within itself; what it set is set back each time."""
    states = (sf.is_grad_enabled, sf.autograd.is_anomaly_enabled)
    before = [state() for state in states]
    made = block(block is not sf.set_grad_enabled)
    inside = [state() for state in states]
    assert inside != before
    with made:
        pass
    assert [state() for state in states] == before
    with made:
        with made:
            assert [state() for state in states] == inside
        assert [state() for state in states] == inside
    assert [state() for state in states] == before


def test_a_state_that_does_not_fit_leaves_lbfgs_as_it_was() -> None:
    optimizer = sf.optim.LBFGS([sf.ones(2, requires_grad=True)])
    before = repr(optimizer.state_dict())
    saved = optimizer.state_dict()
    saved["param_groups"] = [{**saved["param_groups"][0], "lr": 0.5}]
    for wrong in ({"n_iter": "x"}, {"old_dirs": 3}):
        with pytest.raises(sf.CheckpointError):
            optimizer.load_state_dict({**saved, "state": {0: wrong}})
    with pytest.raises(sf.DTypeError):
        optimizer.step(3)
    assert repr(optimizer.state_dict()) == before


ARRAY = np.ones((2, 3), np.float32)
WORDED: dict[str, tuple[Callable[[], Any], str]] = {
    "an array": (lambda: sf.sum(ARRAY), r"sum: 'input' must be a tensor, not ndarray; wrap data with sf\.tensor"),
    "an array, a dim": (lambda: sf.cumsum(ARRAY, 0), "cumsum: 'input' must be a tensor, not ndarray"),
    "a masked array": (lambda: sf.mean(np.ma.masked_array(ARRAY, True)), "mean: 'input' must be a tensor, not MaskedArray"),
    "no tensor at all": (lambda: F.binary_cross_entropy(ARRAY, ARRAY), "binary_cross_entropy: 'input' must be a tensor, not ndarray; wrap"),
    "a number": (lambda: F.binary_cross_entropy(0.5, 1.0), "binary_cross_entropy: 'input' must be a tensor, not float; give a tensor"),
    "None": (lambda: sf.special.entr(None), "entr: 'input' must be a tensor, not NoneType; give a tensor"),
    "a dtype": (lambda: sf.zeros(2**40, 2**40, dtype=sf.float16), r"full\(size=\(1099511627776, 1099511627776\), fill_value=0, dtype=f16\): an"),
    "dot": (lambda: sf.dot(sf.ones(3), sf.ones(4)), r"dot: shapes \[3\] and \[4\]: 3 and 4 differ; the last dim"),
    "a vector": (lambda: sf.ones(3, 2) @ sf.ones(3), r"matmul: shapes \[3, 2\] and \[3\]: 2 and 3 differ"),
    "a row": (lambda: sf.ones(3) @ sf.ones(5, 4, 2), r"matmul: shapes \[3\] and .*: 3 and 4 differ; .* the last but one of"),
    "several integers": (lambda: sf.ones(3, 3).roll(sf.tensor([1, 2, 3])), r"roll: 'shifts' must be an integer, not i64\[3\]"),
    "parts": (lambda: sf.quantile(sf.ones(3), sf.ones(2, 2)), r"quantile: q has shape \[2, 2\]; it must be a number or a vector"),
    "quantile": (lambda: sf.quantile(sf.ones(3), 0.5, dim=4), "quantile: dim 4 is out of range"),
    "softmin": (lambda: sf.nn.functional.softmin(sf.ones(2), 4), "softmin: dim 4 is out of range"),
    "Softmax2d": (lambda: sf.nn.Softmax2d()(sf.ones(2, 2)), r"Softmax2d: takes \(N, C, H, W\) or \(C, H, W\), not shape \[2, 2\]"),
    "a leaf": (lambda: sf.jit(lambda x: x.requires_grad_())(sf.ones(2)), r"requires_grad_\(\) of an argument of a graph"),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDED)
def test_what_a_newcomer_reads(name: str) -> None:
    call, message = WORDED[name]
    with pytest.raises(sf.StaticflowError, match=rf"{message}.* at .*test_wrong_arguments\.py:\d+"):
        call()
