"""Arguments that are very many, very deep or very large: computed in time that grows with their number,
or refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.pytree import DEEPEST, flatten, unflatten


def nested(times: int, around: Callable[[Any], Any] = lambda x: [x]) -> Any:
    tree: Any = sf.ones(3)
    for _ in range(times):
        tree = around(tree)
    return tree


def itself() -> list[Any]:
    tree: list[Any] = []
    tree.append(tree)
    return tree


TREES = {
    "lists": lambda: nested(5000), "dicts": lambda: nested(5000, lambda x: {"a": x}),
    "tuples": lambda: nested(DEEPEST + 1, lambda x: (x, x)), "itself": itself,
}  # fmt: skip
TAKE_TREES: dict[str, Callable[[Any], Any]] = {
    "jit": lambda tree: sf.jit(lambda t: sf.ones(2))(tree),
    "jit gives": lambda tree: sf.jit(lambda x: tree)(sf.ones(2)),
    "compile": lambda tree: sf.compile([sf.placeholder((3,))], tree),
    "scan": lambda tree: sf.scan(lambda c, x: (c, x), tree, sf.ones(3)),
    "cond": lambda tree: sf.cond(sf.tensor(True), lambda t: t, lambda t: t, tree),
    "grad": lambda tree: sf.func.grad(lambda t: sf.ones(()))(tree),
}


@pytest.mark.parametrize("tree", ["lists", "dicts", "itself"])
@pytest.mark.parametrize("name", TAKE_TREES)
def test_trees_that_are_too_deep(name: str, tree: str) -> None:
    with pytest.raises(
        sf.NestingError, match=r"within 100 others.* at .*huge_arguments.py"
    ) as error:
        TAKE_TREES[name](TREES[tree]())
    assert isinstance(error.value, RecursionError)


def test_the_deepest_trees() -> None:
    leaves, structure = flatten(nested(DEEPEST))
    again, same = flatten(unflatten(structure, leaves))
    assert again[0] is leaves[0] and same == structure and hash(same) == hash(structure)
    assert str(structure) == "[" * DEEPEST + "*" + "]" * DEEPEST
    got = sf.jit(lambda tree: tree)(nested(DEEPEST - 2))
    assert flatten(got)[0][0].tolist() == [1.0] * 3
    with pytest.raises(sf.NestingError):
        flatten(nested(DEEPEST + 1))


def test_errors_about_deep_lists_are_short() -> None:
    for call in (lambda x: sf.compile(x, sf.ones(3)), lambda x: sf.ones(x)):
        with pytest.raises(sf.errors.StaticflowError, match=r"at .*huge_arguments.py"):
            call(nested(5000))


def test_many_operands_of_einsum() -> None:
    count, rng = 3000, np.random.default_rng(0)
    x = rng.uniform(0.999, 1.001, (count, 3))
    vectors = [sf.tensor(row) for row in x]
    got = sf.einsum(",".join("a" * count) + "->a", *vectors)
    np.testing.assert_allclose(got.numpy(), x.prod(0), rtol=1e-12)


def test_many_matrices_in_a_row() -> None:
    rng = np.random.default_rng(1)
    turns = [np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(3000)]
    expected = turns[0]
    for t in turns[1:]:
        expected = expected @ t
    row = [*map(sf.tensor, turns)]
    np.testing.assert_allclose(sf.linalg.multi_dot(row).numpy(), expected, atol=1e-9)


def test_many_blocks_on_a_diagonal() -> None:
    blocks = [sf.full((1, 1 + i % 2), float(i), requires_grad=True) for i in range(400)]
    out = sf.block_diag(*blocks)
    at = np.cumsum([0, *(b.shape[1] for b in blocks)])
    expected = np.zeros((400, at[-1]))
    for i in range(400):
        expected[i, at[i] : at[i + 1]] = i
    assert np.array_equal(out.detach().numpy(), expected)
    (out * 2).sum().backward()
    assert all(b.grad.tolist() == [[2.0] * b.shape[1]] for b in blocks)


def test_a_program_of_too_many_arrays() -> None:
    message = r"10000 arrays at most, not 50000.* at .*huge_arguments.py"
    with pytest.raises(sf.ArgumentError, match=message):
        sf.jit(lambda *xs: xs[0])(*[sf.ones(3)] * 50_000)
    with pytest.raises(sf.ArgumentError, match=message):
        sf.compile([sf.placeholder((3,))] * 50_000, sf.ones(3))


@pytest.mark.parametrize("find", [sf.tril_indices, sf.triu_indices])
def test_triangles_beyond_all_sizes(find: Any) -> None:
    for row, col in ((2**63, 2**63), (3, 2**64), (-1, 3)):
        with pytest.raises(
            sf.ShapeError, match=r"_indices: (row|col) must be .* at .*arguments.py"
        ):
            find(row, col)
    assert find(3, 3, 2**70).tolist() == find(3, 3, 3).tolist()
    assert find(3, 3, -(2**70)).tolist() == find(3, 3, -3).tolist()


def test_gamma_functions_of_too_many_dims() -> None:
    with pytest.raises(
        sf.ArgumentError, match=r"p must be from 1 to 1024, not \d+, at .*arguments.py"
    ):
        sf.mvlgamma(sf.ones(3), 2**62)
    for order in (171, 2**62):
        with pytest.raises(sf.ArgumentError, match=r"polygamma: n is \d+; .* at .*arguments.py"):
            sf.polygamma(order, sf.ones(3))
    assert sf.polygamma(170, sf.ones(1, dtype=sf.float64)).isfinite()


def test_many_entries_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new one looked at all that were there already."""
    looks: list[Any] = []
    modules = sf.nn.Module.modules
    monkeypatch.setattr(sf.nn.Module, "modules", lambda self: looks.append(self) or modules(self))
    parts = [sf.nn.Linear(2, 2) for _ in range(300)]
    sf.nn.Sequential(*parts)
    sf.nn.ModuleList(parts)
    sf.nn.ModuleDict({str(i): part for i, part in enumerate(parts)})
    assert len(looks) <= 3 * 300


MANY = {
    "tensor_split": lambda x: x.tensor_split(2**62), "by a tensor": lambda x: x.tensor_split(sf.tensor(2**62)),
    "vsplit": lambda x: sf.vsplit(sf.zeros(1, 1).expand(2**40, 1), 2**40),
    "split": lambda x: sf.zeros(1).expand(2**40).split(1), "chunk": lambda x: sf.zeros(0).chunk(10**9),
    "unbind": lambda x: sf.zeros(1).expand(2**40).unbind(), "vander": lambda x: sf.vander(x[:, 0], 2**62),
    "combinations": lambda x: sf.combinations(sf.arange(60), 30),
    "combinations of one": lambda x: sf.combinations(sf.arange(1), 2**62, with_replacement=True),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("symbolic", [False, True])
def test_more_results_than_can_be_made(name: str, symbolic: bool) -> None:
    x = sf.placeholder((None, 4)) if symbolic else sf.ones(5, 4)
    with pytest.raises(sf.ArgumentError, match=r"at most|elements in all.* at .*huge_arg"):
        MANY[name](x)


def test_parts_of_an_open_size_and_channels_around() -> None:
    open_size = sf.placeholder((None, 4))
    with pytest.raises(sf.ArgumentError, match="chunk: 1000000000 parts are too many"):
        open_size.chunk(10**9)
    x = sf.rand(1, 5, 4)
    wanted = x.double() / (1 + 1e-4 * (x.double() ** 2).sum(1, keepdim=True)) ** 0.75
    for size in (10, 11, 2**62):
        around = sf.nn.functional.local_response_norm(x, size, alpha=size * 1e-4)
        np.testing.assert_allclose(around, wanted, rtol=1e-5)
    with pytest.raises(sf.ShapeError, match="local_response_norm: the size is 0"):
        sf.nn.functional.local_response_norm(x, 0)


def test_offsets_and_steps_beyond_all_sizes() -> None:
    x = sf.rand(5, 4)
    for far in (2**31, 2**62, -(2**62)):
        assert x.diagonal(far).shape == sf.jit(lambda x, far=far: x.diagonal(far))(x).shape == (0,)
    assert x.unfold(0, 2, 2**62).tolist() == x.T[None, :, :2].tolist()
    assert x.unfold(1, 4, 2**40).tolist() == x[:, None].tolist()
