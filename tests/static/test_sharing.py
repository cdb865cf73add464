"""Who shares memory with whom: the same in a graph as eagerly, or refused where strides decide."""

import numpy as np
import pytest

import staticflow as sf
from staticflow import pytree


def array(*shape):
    return lambda: sf.arange(float(np.prod(shape))).reshape(shape)


def turned(*shape):
    return lambda: array(*shape[::-1])().permute(*reversed(range(len(shape))))


def outcome(program, make):
    """The values that ``program`` gives and leaves in its argument, or the error."""
    x = make()
    try:
        given = program(x)
    except sf.StaticflowError as error:
        return error
    return [v.tolist() if isinstance(v, sf.Tensor) else v for v in pytree.flatten((given, x))[0]]


def result_of(fn, then):
    """A program that calls ``fn``, jitted or not, and changes what it gives."""
    return lambda x: then(fn(x), x), lambda x: then(sf.jit(fn)(x), x)


def both(b):
    return b, b


def whole_and_part(b):
    return b, b[:1]


RESULTS = {
    "itself": lambda a: a,
    "a part": lambda a: a[:1],
    "a part of unknown size": lambda a: a[1:],
    "a part of a part": lambda a: a.t()[1:].diagonal(),
    "reshaped": lambda a: a.t().reshape(-1),
    "seen as": lambda a: a.view(-1),
    "contiguous": lambda a: a.t().contiguous(),
    "of its dtype": lambda a: a.to(sf.float32).float(),
    "changed": lambda a: a.add_(1),
    "a part of the changed": lambda a: a.add_(1)[1:],
    "a part, then changed": lambda a: (a[:1], a.mul_(2))[0],
    "detached": lambda a: a.detach()[:1],
    "without history": lambda a: without_history(a),
    "twice": lambda a: both(a * 2),
    "whole and a part": lambda a: whole_and_part(a * 2),
    "a part and the whole": lambda a: whole_and_part(a * 2)[::-1],
    "with its detached": lambda a: (lambda b: (b.detach(), b))(a * 2),
    "windows": lambda a: (lambda b: (b[:, :-1], b[:, 1:]))(a * 2),
    "windows and more": lambda a: (lambda b: (b[0], b[:, 1:], {"x": b.t()}))(a * 2),
    "rows": lambda a: (lambda b: (b[0], b[1]))(a * 2),
    "halves": lambda a: (a * 2).chunk(2),
    "one row twice": lambda a: (lambda b: (b[0], b[0], a + 1, a))(a * 2),
    "many rows": lambda a: (lambda b: [b[i % 2] for i in range(40)])(a[:2] * 2),
    "columns": lambda a: (lambda b: (b[:, 0], b[:, 1]))(a * 2),
    "windows of the changed": lambda a: (lambda b: (b[:1], b[:2]))(a.add_(1) * 2),
    "a list of both": lambda a: {"arg": a, "new": [a + 1, a]},
    "at a number": lambda a: a[number(a, 1)],
    "at a number from the back": lambda a: a[number(a, -1)],
    "at two numbers": lambda a: a[number(a, 1), number(a, -2)],
    "at a number of the last dim": lambda a: a[..., number(a, 2)],
    "at a number, then a part": lambda a: a.t()[number(a, 1)].detach()[:1],
    "a part, then at a number": lambda a: a[1:][number(a, 0)],
    "at a number, changed": lambda a: a[number(a, 0)].mul_(3),
    "at numbers of what is new": lambda a: (
        lambda b: (b[number(a, 1)], b[number(a, 0)], b[number(a, 1)][1:], b)
    )(a * 2),
    "at a number that is a result": lambda a: (lambda i: (a[i], i, a[i]))(number(a, 1)),
}


def number(a, n):
    """The number ``n``, as what only the run can tell."""
    return (a.sum() * 0).long() + n


def without_history(a):
    with sf.no_grad():
        return a[:1]


@pytest.mark.parametrize(
    "make", [array(2, 3), turned(2, 3), array(3, 3)], ids=["rows", "columns", "square"]
)
@pytest.mark.parametrize("name", RESULTS)
def test_results_of_jit_share_memory_as_eagerly(name, make):
    def change_all(given, x):
        leaves = pytree.flatten(given)[0]
        for i, leaf in enumerate(leaves):
            leaf.add_(10 ** (i + 1))
        return given, [leaf is x for leaf in leaves]

    eagerly, jitted = result_of(RESULTS[name], change_all)
    have, want = outcome(jitted, make), outcome(eagerly, make)
    assert have == want or isinstance(want, sf.ShapeError)  # a view of columns, which jit may take


def test_what_overlaps_is_one_result_of_the_program_and_what_does_not_is_its_own():
    for parts, count in ((lambda b: (b[:-1], b[1:]), 1), (lambda b: (b[0], b[1]), 2)):
        run = sf.jit(lambda a, parts=parts: parts(a * 2))
        run(sf.ones(4))
        assert len(run.programs[0]._executable.signature.outputs) == count


def test_gradients_go_through_what_is_handed_back():
    x = sf.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    part, square = sf.jit(lambda a: (a[1:], a * a))(x)
    assert part._base is x
    (part.sum() + square.sum()).backward()
    assert x.grad.tolist() == [[2.0, 4.0], [7.0, 9.0]]


def test_gradients_go_through_what_is_selected_by_a_number():
    x, i = sf.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), sf.tensor(1)
    row = sf.jit(lambda a, i: a[i])(x, i)
    assert row._base is x
    (row * row).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [6.0, 8.0]]
    with sf.no_grad():
        sf.jit(lambda a, i: a[i])(x, i).add_(1)
    assert x.tolist() == [[1.0, 2.0], [4.0, 5.0]]


def test_what_a_module_holds_is_selected_from_by_a_number():
    class Table(sf.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("rows", sf.arange(6.0).reshape(3, 2))

        def forward(self, i):
            return self.rows[i]

    table = sf.jit(Table())
    for i in (2, 0, -1):
        assert table(sf.tensor(i)).tolist() == table.rows[i].tolist()
    with pytest.raises(sf.IndexRangeError, match=r"the index 3 is outside dim 0 of size 3"):
        table(sf.tensor(3))


# -- a reshape, which is a view or a copy
# -----------------------------------------------------------

RESHAPES = {
    "reshape": lambda a: a.t().reshape(-1),
    "flatten": lambda a: a.flatten(),
    "ravel": lambda a: a[:, :2].ravel(),
    "contiguous": lambda a: a.contiguous(),
    "function": lambda a: sf.reshape(a.movedim(0, 1), (2, 3)),
    "of a reshape": lambda a: a.reshape(3, 2).t().reshape(3, 2),
    "a part of it": lambda a: a.flatten()[1:],
}

VIEWS = {
    "with a one behind": lambda a: a.reshape(*a.shape, 1),
    "of ones": lambda a: a.reshape(1, *a.shape),
    "unflatten": lambda a: a.unflatten(1, (3, 1)),
    "split": lambda a: a.split([1, 2], 1)[0],
    "hsplit": lambda a: a.hsplit(3)[1],
    "vsplit": lambda a: a.vsplit(2)[0],
    "tensor_split": lambda a: a.tensor_split(2, 1)[1],
    "chunk": lambda a: a.chunk(2)[1],
    "narrow": lambda a: a.narrow(1, 1, 2),
    "its own shape": lambda a: a.reshape(a.shape),
    "flatten of one dim": lambda a: a.flatten(1),
    "view of columns": lambda a: a[:, 1].view(-1),
}


@pytest.mark.parametrize("make", [array(2, 3), turned(2, 3)], ids=["rows", "columns"])
@pytest.mark.parametrize("name", RESHAPES)
@pytest.mark.parametrize("first", ["it", "what it was made of"])
def test_after_a_change_of_a_reshape_or_of_its_base_the_other_is_refused(name, make, first):
    def program(a):
        a = a * 1
        b = RESHAPES[name](a)
        (b if first == "it" else a).add_(1)
        return (a if first == "it" else b) * 1

    with pytest.raises(
        sf.SymbolicError, match=r"reshape, flatten or contiguous.*\.view\(.*test_sh"
    ):
        sf.jit(program)(make())


@pytest.mark.parametrize("make", [array(2, 3), turned(2, 3)], ids=["rows", "columns"])
@pytest.mark.parametrize("name", RESHAPES)
def test_a_reshape_may_be_changed_where_its_base_is_not_used_again(name, make):
    def program(a):
        return RESHAPES[name](a * 1).add_(1)

    assert outcome(sf.jit(program), make) == outcome(program, make)


@pytest.mark.parametrize("name", RESHAPES)
def test_an_argument_of_which_a_reshape_is_changed_is_refused(name):
    with pytest.raises(sf.SymbolicError, match="reshape, flatten or contiguous"):
        sf.jit(lambda a: RESHAPES[name](a).add_(1) * 2)(array(2, 3)())


@pytest.mark.parametrize("make", [array(2, 3), turned(2, 3)], ids=["rows", "columns"])
@pytest.mark.parametrize("name", VIEWS)
def test_what_is_a_view_whatever_the_strides_changes_its_base(name, make):
    def program(a):
        VIEWS[name](a).mul_(2)
        return a * 1

    assert outcome(sf.jit(program), make) == outcome(program, make)


def test_a_reshape_from_outside_of_a_loop_is_not_changed_inside():
    def program(a):
        flat = a.t()

        def iteration(i, c):
            flat.reshape(-1).add_(1)
            return c + flat.sum()

        return sf.fori_loop(0, 2, iteration, a.sum())

    with pytest.raises(sf.SymbolicError, match="outside of the function"):
        sf.jit(program)(array(2, 3)())


def test_what_a_function_closes_over_and_gives_back_is_that_tensor():
    w, c = sf.nn.Parameter(sf.ones(3)), sf.ones(2, 2)
    holder = sf.nn.ParameterList([w])

    def f(x):
        return x * 2, w, w[0], c, c.t(), c[1], holder[0][1:], sf.ones(2), sf.tensor([1.0, 2.0])

    run = sf.jit(f)
    for call in (f, run):
        out = call(sf.ones(3))
        assert out[1] is w and out[3] is c
        out[4].mul_(2)
        out[5].add_(1)
        assert c.tolist() == [[2, 2], [3, 3]]
        out[7].zero_()
        out[8].zero_()
        again = call(sf.ones(3))
        assert (again[7].tolist(), again[8].tolist()) == ([1, 1], [1, 2])
        w.grad = None
        (out[0].sum() + out[1].sum() + out[2] * 2 + out[6].sum()).backward()
        assert w.grad.tolist() == [3, 2, 2]
        c.fill_(1)
    assert run.compile_count == 1


def test_what_is_detached_of_a_tensor_follows_its_data():
    w = sf.nn.Parameter(sf.ones(100))
    runs = [sf.jit(lambda x: x * w.detach()), sf.jit(lambda x: x * sf.tensor(w.detach().numpy()))]
    for value in (1.0, 5.0):
        w.data = sf.full((100,), value)
        assert [run(sf.ones(100))[7].item() for run in runs] == [value, value]
