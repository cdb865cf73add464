"""What the tape keeps for a vjp: the values that it uses, seen by calling it on symbols."""

from __future__ import annotations

import dataclasses
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from opinfo import ROWS
from opinfo.modes import arrays_of, call, graph_of
from slices import daily

import staticflow as sf
from staticflow.errors import AutogradError
from staticflow.graph.dtypes import DType
from staticflow.graph.op import OUT, Op
from staticflow.graph.types import types_of
from staticflow.ops import OPS, by_name
from staticflow.ops.declaring.declare import PerElement, compose, per_arg
from staticflow.ops.declaring.lowering import View
from staticflow.ops.symbols.saves import place_of_result, saves_of, used_values

CASES = [
    (name, dtype)
    for name, op in OPS.items()
    if op.vjp
    for dtype in ROWS[name].dtypes
    if dtype.is_floating
]

# -- the ops --------------------------------------------------------------------------------------


def uses_in_samples(name: str, dtype: DType) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Of each call in the samples of an op, and each argument that has a cotangent: the number of
    arguments, which one it is, and what its cotangent uses."""
    info = ROWS[name]
    for smooth in (True, False):
        for sample in info.samples(dtype, smooth):
            for node in graph_of(info, sample).nodes:
                if node.op is info.op and any(t.dtype.is_floating for t in types_of(node.type)):
                    types = [a.tensor_type for a in node.args]
                    for i, used in enumerate(used_values(info.op, types, node.attrs)):
                        if types[i].dtype.is_floating:
                            yield len(types), i, used


def check_op(name: str, dtype: DType) -> None:
    """A cotangent uses the same values in every call, of the arguments that there are; or the op
    states what it may use, and has to."""
    op = OPS[name]
    uses = defaultdict(set)
    for count, i, used in uses_in_samples(name, dtype):
        uses[i].add((count, used))
    everything = {i: {j for _, used in seen for j in used} for i, seen in uses.items()}
    others = {
        i: seen
        for i, seen in uses.items()
        if any(used != {j for j in everything[i] if j < count} for count, used in seen)
    }
    if op.saves is None:
        assert not others, f"{name} is to state what it saves; by argument it uses {others}"
    else:
        assert set(op.saves) >= set().union(*everything.values()), everything
        assert others, f"{name} need not state what it saves"


@pytest.mark.parametrize(("name", "dtype"), daily(CASES, 120, "saves"), ids=str)
def test_every_call_uses_the_same_values(name: str, dtype: DType) -> None:
    check_op(name, dtype)


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_every_call_of_all_uses_the_same_values(name: str, dtype: DType) -> None:
    check_op(name, dtype)


def test_an_op_whose_result_has_no_type_before_it_ran() -> None:
    x, mask = sf.tensor([1.0, 2.0, 3.0], requires_grad=True), sf.tensor([True, False, True])
    selected = sf.masked_select(x, mask)
    shape, kept = selected._vertex.args
    assert not isinstance(shape, tuple) and isinstance(kept, tuple)
    assert selected._vertex.result is None
    selected.sum().backward()
    assert x.grad.tolist() == [1, 0, 1]


def gradients_behind_a_change(info: Any, sample: Any, changed: int | None) -> list[Any]:
    """The gradients of the floating results; result number ``changed`` was changed in place
    before, by an operation that is its own inverse, for the backward of which nothing is kept."""
    given = [sf.from_numpy(a.copy()) for a in arrays_of(sample)]
    real = [t.requires_grad_() for t in given if t.dtype.is_floating]
    outs = call(info, sample, given)
    if changed is not None:
        outs[changed].neg_().neg_()
    sums = [o.sum() for o in outs if o.requires_grad]
    return [*sf.autograd.grad(sum(sums[1:], sums[0]), real, allow_unused=True)]


def test_of_several_results_those_are_kept_that_the_gradient_uses() -> None:
    """The values of `topk`, whose gradient uses the indices alone, may be changed in place."""
    taken, refused = set(), set()
    for name, dtype in CASES:
        info = ROWS[name]
        sample = next(iter(info.samples(dtype, True)))
        graph = graph_of(info, sample)
        nodes = [n for n in graph.nodes if n.op is info.op and isinstance(n.type, tuple)]
        if len(nodes) != 1 or type(info.op.lowering) is View:
            continue
        types = [a.tensor_type for a in nodes[0].args]
        used = frozenset().union(*used_values(info.op, types, nodes[0].attrs))
        expected = gradients_behind_a_change(info, sample, None)
        for i, t in enumerate(nodes[0].type):
            if len(graph.outputs) != len(nodes[0].type) or not t.dtype.is_floating:
                continue
            for _ in range(4):  # from the third call on by native code
                try:
                    found = gradients_behind_a_change(info, sample, i)
                except AutogradError as error:
                    assert OUT - i in used and "needed for the gradient was changed" in str(error)
                    refused.add(name)
                    continue
                for a, b in zip(found, expected, strict=True):
                    assert (a is None and b is None) or a.tolist() == b.tolist(), name
                taken.add(name)
    assert {"topk", "sort"} <= taken and len(taken) > 5 and refused, (taken, refused)


def test_two_ops_of_one_name_are_refused() -> None:
    other = op_with(None)
    with pytest.raises(ValueError, match="two ops are named 'sum_of_two'"):
        by_name([other, other, op_with(None)])


def test_the_entries_of_views_keep_no_value() -> None:
    """`staticflow.eager.views` makes them without a look at the vjp."""
    for name, op in OPS.items():
        if op.vjp and type(op.lowering) is View and op.numpy == "faster":
            dtype = next(d for d in ROWS[name].dtypes if d.is_floating)
            assert not any(used for *_, used in uses_in_samples(name, dtype)), name


# -- an op of the user ----------------------------------------------------------------------------


def op_with(vjp: Any, attributes: Any = None) -> Op:
    """``a + b``, which has no native form, with a derivative of its own."""
    return Op(
        name="sum_of_two",
        doc="",
        infer=lambda facts, a, b, **attrs: a,
        reference=attributes or (lambda xp, a, b: a + b),
        vjp=vjp,
        decompose=lambda a, b, **attrs: a + b,
    )


def two() -> tuple[sf.Tensor, sf.Tensor]:
    return (
        sf.tensor([1.0, 2.0], requires_grad=True),
        sf.tensor([3.0, 4.0], requires_grad=True),
    )


def test_what_each_wanted_argument_uses() -> None:
    op = op_with(per_arg(lambda ct, out, a, b: ct * b, lambda ct, out, a, b: ct * out))
    assert saves_of(op, two(), {}) == ({1}, {OUT})
    a, b = two()
    op(a, b.detach()).sum().backward()
    assert a.grad.tolist() == [3, 4]
    entry = op(a.detach(), b)._vertex
    assert entry.args == [None, None] and isinstance(entry.result, tuple), "the result alone"


def test_shapes_and_dtypes_are_no_values() -> None:
    op = op_with(per_arg(lambda ct, out, a, b: ct.sum().expand(a.shape).to(b.dtype), None))
    assert saves_of(op, two(), {})[0] == set()


def test_what_is_computed_in_vain_is_used() -> None:
    """A vjp that computes with an argument needs it, whatever becomes of that."""

    def vjp(needs: Any, ct: Any, out: Any, a: Any, b: Any) -> list[Any]:
        both = a * b
        return [ct if needs[0] else None, ct * both if needs[1] else None]

    op = op_with(vjp)
    assert saves_of(op, two(), {}) == ({0, 1}, {0, 1})
    a, b = two()
    op(a, b.detach()).sum().backward()
    assert a.grad.tolist() == [1, 1]


def test_an_argument_that_is_the_cotangent_is_used() -> None:
    op = op_with(per_arg(lambda ct, out, a, b: b, None))
    assert saves_of(op, two(), {})[0] == {1}


def test_a_vjp_that_looks_at_values_keeps_all() -> None:
    def vjp(ct: Any, out: Any, a: Any, b: Any) -> Any:
        return ct * b if a.sum().item() > 0 else ct

    op = op_with(per_arg(vjp, None))
    assert saves_of(op, two(), {})[0] >= {0, 1, OUT}
    a, b = two()
    op(a, b).sum().backward()
    assert a.grad.tolist() == [3, 4]


def test_a_trace_for_which_there_is_no_memory_is_made_later() -> None:
    memory = [False]

    def partial(ct: Any, out: Any, a: Any, b: Any) -> Any:
        if not memory[0]:
            raise MemoryError
        return ct * b

    op, (a, b) = op_with(per_arg(partial, None)), two()
    with pytest.raises(MemoryError):
        op(a, b)
    memory[0] = True
    assert saves_of(op, (a, b), {})[0] == {1}


def by_attribute(saves: Any = None) -> Op:
    vjp = per_arg(lambda ct, out, a, b, *, scaled: ct * b if scaled else ct, None)
    op = op_with(vjp, lambda xp, a, b, *, scaled: a + b)
    values = {f: getattr(op, f) for f in ("name", "doc", "infer", "reference", "vjp", "decompose")}
    return Op(**values, saves=saves)


def test_a_value_that_was_not_kept_is_never_replaced() -> None:
    op = by_attribute()
    a, b = two()
    op(a, b, scaled=False).sum().backward()
    assert a.grad.tolist() == [1, 1]
    loss = op(a, b, scaled=True).sum()
    with pytest.raises(AutogradError, match=r"sum_of_two: .*float32\[2\], .*not kept.*test_s"):
        loss.backward()
    assert a.grad.tolist() == [1, 1]


def test_a_value_that_was_not_kept_is_not_in_a_program_either() -> None:
    """The vjp of large arrays is compiled."""
    vjp = per_arg(lambda ct, out, a, b, *, scaled: (ct + 1) * (b + 2) if scaled else ct, None)
    op = op_with(vjp, lambda xp, a, b, *, scaled: a + b)
    a, b = sf.ones(1 << 17, requires_grad=True), sf.ones(1 << 17)
    op(a, b, scaled=False)
    op(a, b, scaled=False).sum().backward()
    with pytest.raises(AutogradError, match="not kept"):
        op(a, b, scaled=True).sum().backward()


def test_an_op_states_what_depends_on_its_attributes() -> None:
    op = by_attribute(saves=(1,))
    a, b = two()
    op(a, b, scaled=False).sum().backward()
    op(a, b, scaled=True).sum().backward()
    assert a.grad.tolist() == [4, 5]


def test_a_partial_of_arrays_is_given_no_value_that_is_not_kept() -> None:
    """Partials that are made of Python's operators run on the arrays as they are."""
    a, b = two()
    product = a * b
    entry = product._vertex
    assert isinstance(entry.op.vjp, PerElement) and entry.op.vjp.self_contained
    entry.args = (None, None)  # as if the vjp used neither
    with pytest.raises(TypeError, match="NoneType"):
        product.sum().backward()


def test_many_threads_that_record_first() -> None:
    """The first recording of an op by several threads at a time."""
    op = compose(
        "twice_and_more", "", lambda xp, x: x * x, lambda k, x: k.mul(x, x),
        (lambda ct, out, x: ct * x * 2,), grad_name="TwiceBackward0",
    )  # fmt: skip
    ready, found = threading.Barrier(8), []

    def record() -> None:
        x = sf.tensor([1.0, 2.0], requires_grad=True)
        ready.wait()
        op(x).sum().backward()
        found.append(x.grad.tolist())

    threads = [threading.Thread(target=record) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [[2, 4]] * 8


def test_an_op_that_states_its_output_states_all_of_several() -> None:
    several = op_with(None)
    stated = dataclasses.replace(several, saves=(1, OUT))
    kept = saves_of(stated, two(), {})[0]
    assert {1, OUT} | {place_of_result(i) for i in (0, 1, 31, 32, 500)} <= kept and 0 not in kept
