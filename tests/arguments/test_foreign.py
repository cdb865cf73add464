"""Lists, arrays and numbers where tensors are wanted: the error names function, argument and line."""

from __future__ import annotations

import inspect
import re
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from calls_of_all import CALLABLES, LAYERS, calls_of, with_leaves

import staticflow as sf
from staticflow.errors import DTypeError, StaticflowError

F = sf.nn.functional
X = sf.ones(3, 3)

SAYS: dict[str, tuple[Any, str]] = {
    "sum": (lambda x: sf.sum([1.0]), "sum: 'input' must be a tensor, not list; wrap data with"),
    "number": (lambda x: sf.sum(3), "sum: 'input' must be a tensor, not int; give a tensor"),
    "index_select": (lambda x: x.index_select(0, [1]), "index_select: 'index' must be a tensor"),
    "index_add_": (lambda x: x.index_add_(0, [1], x), "index_add_: 'index' must be a tensor"),
    "matmul": (lambda x: x @ [1.0, 2.0, 3.0], "matmul: 'other' must be a tensor, not list"),
    "several": (lambda x: sf.atleast_1d(x, [1.0]), r"atleast_1d: 'tensors\[1\]' must be a tensor"),
    "indices": (lambda x: x.index_put(([0],), x[0]), r"index_put: 'indices\[0\]' must be a ten"),
    "cross_entropy": (lambda x: F.cross_entropy(x, [0, 1, 2]), "cross_entropy: 'target' must be"),
    "allclose": (lambda x: sf.allclose([1.0], [1.0]), "allclose: 'input' must be a tensor, not l"),
    "array": (lambda x: sf.detach(np.ones(3)), "detach: 'input' must be a tensor, not ndarr"),
    "linalg": (lambda x: sf.linalg.inv([[1.0]]), "inv: 'A' must be a tensor, not list"),
    "special": (lambda x: sf.special.entr([0.5]), "entr: 'input' must be a tensor, not list"),
    "function": (lambda x: sf.map(3, x), "map: fn is of type int; it must be a function"),
    "step": (lambda x: sf.scan(3, x, x), "scan: fn is of type int; it must be a function"),
    "carry": (lambda x: sf.fori_loop(0, 2, lambda i, c: "a", x), "fori_loop: carry is of type str; it must be a tensor"),
    "outputs": (lambda x: sf.grad(3, x), "gradients are of tensors by tensors, not of int"),
    "layer": (lambda x: sf.nn.Linear("3", 4), "Linear: 'in_features' must be int, not '3'"),
    "base": (lambda x: sf.nn.Conv2d("1", 2, 3), "Conv2d: 'in_channels' must be int, not '1'"),
    "init": (lambda x: sf.nn.init.normal_(3), "normal_: 'tensor' must be a tensor, not int"),
    "in_place": (lambda x: x.lerp_([1.0], 0.5), "lerp_: 'end' must be a tensor, not list"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAYS)
def test_the_error_names_function_argument_and_line(case: str) -> None:
    call, says = SAYS[case]
    with pytest.raises(DTypeError, match=rf"{says}.*, at .*test_foreign\.py:\d+"):
        call(sf.ones(3, 3))


def test_a_layer_of_the_users_names_itself() -> None:
    class Own(sf.nn.Linear):
        def __init__(self, width: Any) -> None:
            super().__init__(3, width)

    assert list(inspect.signature(sf.nn.Linear).parameters)[:2] == ["in_features", "out_features"]
    with pytest.raises(
        DTypeError, match=r"Own: 'out_features' must be int, not list, at .*test_fo"
    ):
        Own([4])


def test_of_symbols_as_well() -> None:
    x = sf.placeholder((3, 3), name="x")
    with pytest.raises(DTypeError, match="index_select: 'index' must be a tensor, not list"):
        x.index_select(0, [1])


def test_an_error_of_another_kind_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        sf.chunk(X)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        sf.fori_loop(0, 2, lambda i, c: c.nothing, X)
    assert inspect.signature(sf.chunk).parameters.keys() == {"input", "chunks", "dim"}


@pytest.mark.parametrize("room", [sf, F, sf.linalg, sf.special], ids=lambda m: m.__name__)
def test_every_function_of_ops_refuses_lists_so(room: Any) -> None:
    for name in getattr(room, "__all__", dir(room)):
        fn = getattr(room, name)
        inner = inspect.unwrap(fn) if type(fn) is FunctionType else fn
        if type(inner) is not FunctionType or not inner.__module__.startswith("staticflow.ops."):
            continue
        asked = [p for p in inspect.signature(inner).parameters.values() if p.default is p.empty]
        needed = [p for p in asked if p.kind is not p.KEYWORD_ONLY]
        named = {p.name: 1 for p in asked if p.kind is p.KEYWORD_ONLY}
        if not needed or needed[0].name not in ("input", "x") or name == "is_complex":
            continue
        with pytest.raises(StaticflowError):
            fn(*([1.0, 2.0] for p in needed if p.kind is p.POSITIONAL_OR_KEYWORD), **named)


# -- tensors of other libraries -------------------------------------------------------------------


class _Dtype:
    """A dtype as another library has it."""


class Other:
    """What another library's tensor shows: DLPack, a shape, a dtype of its own, and no operators."""

    dtype = _Dtype()

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)
        self.shape, self.ndim = self.array.shape, self.array.ndim

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


THERE = Other(np.ones((3, 3), np.float32))
PLACES = Other(np.array([1, 0, 2]))
BESIDE: dict[str, Any] = {
    "s + t": lambda s: s + THERE, "t + s": lambda s: THERE + s, "s - t": lambda s: s - THERE,
    "t - s": lambda s: THERE - s, "s * t": lambda s: s * THERE, "t * s": lambda s: THERE * s,
    "s / t": lambda s: s / THERE, "t / s": lambda s: THERE / s, "s ** t": lambda s: s**THERE,
    "s @ t": lambda s: s @ THERE, "t @ s": lambda s: THERE @ s, "s < t": lambda s: s < THERE,
    "t < s": lambda s: s > THERE, "s == t": lambda s: s == THERE, "t == s": lambda s: s == THERE,
    "s[t]": lambda s: s[PLACES], "s[:, t]": lambda s: s[:, PLACES],
    "s[0] = t": lambda s: s.__setitem__(0, THERE), "add": lambda s: sf.add(s, THERE),
    "matmul": lambda s: sf.matmul(THERE, s), "cat": lambda s: sf.cat([s, THERE]),
    "where": lambda s: sf.where(s > 0, THERE, s), "mse_loss": lambda s: F.mse_loss(s, THERE),
    "cross_entropy": lambda s: F.cross_entropy(s, PLACES), "allclose": lambda s: sf.allclose(s, THERE),
    "gather": lambda s: s.gather(0, PLACES), "linear": lambda s: F.linear(s, THERE),
    "conv": lambda s: F.conv1d(s[None], THERE), "embedding": lambda s: F.embedding(PLACES, s),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["eager", "recorded", "symbol"])
@pytest.mark.parametrize("case", BESIDE)
def test_the_tensor_of_another_library_is_taken_over_first(case: str, mode: str) -> None:
    s: Any = sf.placeholder((3, 3), name="s") if mode == "symbol" else sf.ones(3, 3)
    s = s.requires_grad_() * 1 if mode == "recorded" else s
    says = r"take over another library's with sf\.from_dlpack\(\.\.\.\), at .*test_foreign\.py:\d+"
    with pytest.raises(StaticflowError, match=says):
        BESIDE[case](s)


def test_where_values_are_taken_another_library_gives_them() -> None:
    for make in (sf.tensor, sf.as_tensor, sf.asarray, sf.from_dlpack, sf.ones(1).new_tensor):
        assert make(THERE).tolist() == np.ones((3, 3)).tolist()
    x = sf.placeholder((3, 3), name="x")
    assert sf.compile([x], x.sum())(THERE).item() == 9
    layer = sf.nn.Linear(3, 3)
    layer.load_state_dict({"weight": THERE, "bias": Other(np.arange(3, dtype=np.float32))})
    assert layer.bias.tolist() == [0, 1, 2] and layer.weight.sum().item() == 9
    before = layer.weight.tolist()
    with pytest.raises(StaticflowError, match=r"weight has shape \[2\], and \[3, 3\] is needed"):
        layer.load_state_dict({"weight": Other(np.zeros(2)), "bias": Other(np.ones(3))})
    assert layer.weight.tolist() == before and layer.bias.tolist() == [0, 1, 2]


def test_memory_is_not_assigned_from_another_library() -> None:
    x = sf.ones(3, 3)
    with pytest.raises(DTypeError, match=r"data is set to test_foreign\.Other.*take over"):
        x.data = THERE
    with pytest.raises(StaticflowError, match=r"parameter 0 is test_foreign\.Other; take over"):
        sf.optim.SGD([THERE], lr=0.1)


# -- masked arrays --------------------------------------------------------------------------------

MASKED = np.ma.masked_array(np.ones(3, np.float32), [True, False, True])
TAKING: dict[str, Any] = {
    "tensor": sf.tensor, "as_tensor": sf.as_tensor, "asarray": sf.asarray, "Parameter": sf.nn.Parameter,
    "from_numpy": sf.from_numpy, "from_dlpack": sf.from_dlpack, "new_tensor": sf.ones(1).new_tensor,
    "a list": lambda m: sf.tensor([m, m]), "x + m": lambda m: sf.ones(3) + m,
    "x @ m": lambda m: sf.ones(3) @ m, "np.add": lambda m: np.add(sf.ones(3), m),
    "np.concatenate": lambda m: np.concatenate([sf.ones(3), m]), "cat": lambda m: sf.cat([sf.ones(3), m]),
    "x[m]": lambda m: sf.ones(3)[m > 0], "x[m] = 1": lambda m: sf.ones(3).__setitem__(m > 0, 1.0),
    "x[:] = m": lambda m: sf.ones(3).__setitem__(slice(None), m), "copy_": sf.ones(3).copy_,
    "where": lambda m: sf.where(m > 0, sf.ones(3), 0.0), "jit": lambda m: sf.jit(lambda x: x)(m),
    "backward": lambda m: (sf.ones(3, requires_grad=True) * 1).backward(m),
    "scan": lambda m: sf.scan(lambda c, x: (c, x), sf.ones(1), m),
    "symbol": lambda m: sf.placeholder((3,), name="x") * m,
}  # fmt: skip


@pytest.mark.parametrize("case", TAKING)
def test_a_mask_is_not_lost(case: str) -> None:
    with pytest.raises(DTypeError, match=r"has masked elements.*filled.*test_foreign\.py:\d+"):
        TAKING[case](MASKED)


def test_a_state_with_a_mask_changes_nothing() -> None:
    layer = sf.nn.Linear(3, 3)
    state = {"weight": np.ones((3, 3), np.float32), "bias": MASKED}
    before = layer.weight.tolist()
    with pytest.raises(StaticflowError, match=r"bias is a masked array .* give array\.filled"):
        layer.load_state_dict(state)
    assert layer.weight.tolist() == before


def test_an_array_of_which_nothing_is_masked_is_an_array() -> None:
    assert sf.tensor(np.ma.masked_array([1, 2], [False, False])).tolist() == [1, 2]


def test_a_masked_array_computes_with_the_values_of_a_tensor() -> None:
    masked = MASKED + sf.ones(3)
    assert masked.mask.tolist() == MASKED.mask.tolist() and masked[1] == 2.0
    assert np.ma.array(sf.ones(2)).mask.any() == np.False_


def _with_foreign_leaf(given: Any, position: int, foreign: Any) -> Any:
    """The inputs as tensors, but for the one at ``position``."""
    seen = iter(range(100))
    return with_leaves(given, lambda x: foreign(x) if next(seen) == position else sf.tensor(x))


def test_every_callable_names_a_tensor_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="a tensor of another library is PyTorch's")
    refused = 0
    for name in sorted(
        {*CALLABLES, *LAYERS} - {"as_strided"}
    ):  # which is told of its numbers first
        for fn, given in calls_of(name)[:1]:
            for position in range(len(sf.pytree.flatten(given)[0])):
                args = _with_foreign_leaf(given, position, torch.as_tensor)
                try:
                    fn(*args)
                except StaticflowError as error:
                    assert re.search(r"torch\.Tensor|torch: ", str(error)), f"{name}: {error}"
                    refused += 1
    assert refused > 100
