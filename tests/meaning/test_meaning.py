"""What a program means outside the ops is one in every way to run it, and is PyTorch's."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from slices import daily

import staticflow as sf
from meaning.functions import ALL_OF_IT, FUNCTIONS
from meaning.ways import AROUND, WAYS

ANSWERS = json.loads((Path(__file__).parents[1] / "reference" / "meaning.json").read_text())[
    "answers"
]

NAMES = sorted(FUNCTIONS)

REFUSED = {
    ("loop_over_a_size", "jit"): r"the size .* is known only when the program runs, .*sf\.scan",
    ("size_as_a_float", "jit"): r"the size .* is known only when the program runs",
    ("length", "jit"): r"len\(\): the size .* use x\.shape\[0\]",
    ("iteration", "jit"): r"the iteration of a symbolic value .* sf\.scan",
    ("branch_on_a_size", "jit"): r"whether .* > 2 depends on sizes .* cannot branch",
    **{
        ("branch_on_a_value", way): r"the truth of a symbolic value .* sf\.where"
        for way in ("compile", "parameter", "jit")
    },
    **{
        ("number_of_a_value", way): r"the number of a symbolic value"
        for way in ("compile", "parameter", "jit")
    },
    **{
        (f"reshape_{changed}", "jit"): r"depends on strides, which a graph does not know"
        for changed in ("changed", "changed_without_recording")
    },
    ("reshape_changed_below", "jit"): r"depends on strides that a graph does not know",
    **{
        (f"expand_{changed}", "jit"): r"result of expand, .* change a clone"
        for changed in ("changed", "changed_without_recording")
    },
}
"""What a way to run refuses, whatever stands around: the message by the function and the way."""

MORE = {"view_changed_later", "view_of_a_view_without_recording_changed"}
"""What PyTorch refuses and staticflow computes: the view has no history, as anything else that was
made without recording."""

CASES = [(n, a, w) for n in NAMES for a in AROUND for w in WAYS]


def answer(name: str, around: str, way: str):
    return WAYS[way](AROUND[around](lambda x, w: FUNCTIONS[name](sf, x, w)))


def check(name: str, around: str, way: str) -> None:
    if (name, way) in REFUSED:
        with pytest.raises(sf.StaticflowError, match=REFUSED[name, way]) as refusal:
            answer(name, around, way)
        assert re.search(r"functions\.py:\d+", str(refusal.value))
        return
    want = answer(name, around, "eager") if name in MORE else ANSWERS[name][around]
    assert ("error" in ANSWERS[name][around]) == (name in MORE)
    got = answer(name, around, way)
    for what, value in want.items():
        assert (value is None) == (got[what] is None), f"{what}: {got[what]}, not {value}"
        if value is not None:
            near = 1e-5 * max(1, *np.abs(value).flat)  # where terms cancel
            np.testing.assert_allclose(got[what], value, rtol=3e-5, atol=near, err_msg=what)


@pytest.mark.parametrize("case", daily(CASES, 40, "meaning"), ids="-".join)
def test_means_the_same(case):
    check(*case)


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_every_function_means_the_same(case):
    check(*case)


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith(("no_grad", "own_backward_w"))])
@pytest.mark.parametrize("way", WAYS)
def test_recording_is_switched_in_every_way(name, way):
    check(name, "plain", way)


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith(tuple(ALL_OF_IT))])
@pytest.mark.parametrize("way", WAYS)
def test_a_copy_and_a_view_of_all_have_a_history_of_their_own(name, way):
    check(name, "plain", way)


def kernels(without) -> list[int]:
    """The numbers of kernels of two programs, without a gradient and with one."""
    x, w = sf.placeholder((8, 8), name="x"), sf.placeholder((8, 8), name="w")
    h = without(lambda: (x @ w).tanh())
    y = (h @ x).sum()
    one, both = sf.compile([x, w], y), sf.compile([x, w], [y, sf.grad(y, x)])
    return [one.kernel_count, both.kernel_count]


def test_what_is_not_recorded_costs_no_kernel():
    def in_no_grad(fn):
        with sf.no_grad():
            return fn()

    assert kernels(in_no_grad) == kernels(lambda fn: fn().detach())
    assert kernels(in_no_grad)[0] == kernels(lambda fn: fn())[0]
    assert kernels(in_no_grad)[1] < kernels(lambda fn: fn())[1]


def test_a_loop_that_is_not_recorded_costs_no_loop():
    xs, w = sf.placeholder(("T", 4), name="xs"), sf.placeholder((4,), name="w")

    def loops(program):
        return program.source("kernels").count("kernel ")

    def run():
        return sf.scan(lambda c, x: ((c * w).tanh() + x, c), w, xs)

    with sf.no_grad():
        last, ys = run()
    apart = sf.compile([xs, w], [*(y := [last, ys]), sf.grad((last * w).sum() + ys.sum(), w)])
    alone = sf.compile([xs, w], [last, ys])
    assert loops(apart) <= loops(alone) + 1  # the sum of last * w
    last, ys = run()
    recorded = sf.compile([xs, w], [*y, sf.grad((last * w).sum() + ys.sum(), w)])
    assert loops(recorded) > loops(apart)


def test_a_frozen_backbone_stays():
    sf.manual_seed(0)
    backbone, head = sf.nn.Linear(4, 8), sf.nn.Linear(8, 1)
    before = backbone.weight.detach().clone()
    opt = sf.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.1, weight_decay=0.1)
    x = sf.placeholder((None, 4), name="x")
    with sf.no_grad():
        features = backbone(x).tanh()
    loss = (head(features) ** 2).mean()
    step = sf.compile([x], loss, updates=opt.minimize(loss))
    first = step(sf.ones(5, 4)).item()
    assert step(sf.ones(5, 4)).item() < first
    assert (backbone.weight == before).all()


@pytest.mark.parametrize("recorded", [True, False])
def test_a_jitted_backbone_has_no_gradient(recorded):
    backbone, head = sf.nn.Linear(4, 8), sf.nn.Linear(8, 1)

    @sf.jit
    def loss(x):
        with sf.set_grad_enabled(recorded):
            features = backbone(x)
        return head(features).sum()

    loss(sf.ones(5, 4)).backward()
    assert head.weight.grad is not None
    assert (backbone.weight.grad is not None) == recorded


def test_results_of_jit_require_what_they_do_eagerly():
    def fn(x, w):
        with sf.no_grad():
            a = x * 2
        return a, w * 1, x.detach(), x * w, (x > 0)

    x, w = sf.ones(2, requires_grad=True), sf.ones(2)
    for run in (fn, sf.jit(fn)):
        assert [y.requires_grad for y in run(x, w)] == [False, False, False, True, False]


def test_jit_asks_the_mode_of_its_caller():
    @sf.jit
    def fn(x):
        with sf.enable_grad():
            inner = x * 2
        return inner, x * (3 if sf.is_grad_enabled() else 5)

    x = sf.ones(2, requires_grad=True)
    assert [(y[0].item(), y.requires_grad) for y in fn(x)] == [(2.0, True), (3.0, True)]
    with sf.no_grad():
        assert [(y[0].item(), y.requires_grad) for y in fn(x)] == [(2.0, True), (5.0, False)]
    with sf.inference_mode():
        assert all(y.is_inference() for y in fn(x))
    assert fn.compile_count == 3


def test_compiling_without_recording_is_the_same_program():
    x = sf.placeholder((None, 4), name="x")
    y = sf.nn.functional.layer_norm(x @ sf.ones(4, 4), (4,)).softmax(-1)
    with sf.no_grad():
        inside = sf.compile([x], y)
    assert str(inside.optimized) == str(sf.compile([x], y).optimized)


def test_a_traced_function_that_leaves_the_mode_switched_is_refused():
    @sf.jit
    def fn(x):
        sf.set_grad_enabled(False)
        return x * 2

    with pytest.raises(sf.SymbolicError, match=r"leaves the recording of gradients switched.*\.py"):
        fn(sf.ones(2))
    assert sf.is_grad_enabled()


def test_a_derivative_taken_without_recording_is_the_end():
    x = sf.placeholder((), name="x")
    cube = x**3
    with sf.no_grad():
        slope = sf.grad(cube, x)
    assert sf.compile([x], sf.grad(slope * x, x))(2.0).item() == 12.0
    with pytest.raises(sf.AutogradError, match="do not depend"):
        sf.grad(slope, x)


@pytest.mark.parametrize("further", [lambda v: v, lambda v: v[:1]], ids=["itself", "a view of it"])
def test_a_view_taken_without_recording_is_changed_without_recording(further):
    for y in (sf.ones(3, requires_grad=True) * 2, sf.placeholder((3,), name="x") * 2):
        with sf.no_grad():
            part = y[1:]
        with pytest.raises(sf.AutogradError, match=r"a view that was taken in sf.no_grad\(\)"):
            further(part).add_(1.0)


@pytest.mark.parametrize("run", [lambda f: f, sf.jit], ids=["eager", "jit"])
def test_loops_and_branches_hand_on_no_history_without_recording(run):
    def fn(x):
        with sf.no_grad():
            a = sf.cond(x.sum() > 0, lambda: x, lambda: -x)
            b, _ = sf.scan(lambda c, _: (c, None), x, length=3)
            c = sf.fori_loop(0, 2, lambda i, c: c, x)
        return a, b, c

    assert [y.requires_grad for y in run(fn)(sf.ones(2, requires_grad=True))] == [False] * 3


OWN = sf.Generator().manual_seed(3)


def doubled_noise(x):
    noise = sf.rand(2) * 2
    return x + noise


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x + sf.rand(2),
        lambda x: x * sf.randn(2, generator=OWN),
        doubled_noise,
    ],
    ids=["in the line", "of an own generator", "in a function of symbols"],
)
def test_a_draw_that_a_graph_freezes_is_warned_of(write):
    x = sf.placeholder((2,), name="x")
    with pytest.warns(UserWarning, match="is the same in every call of the program") as found:
        y = write(x)
    assert found[0].filename == __file__
    frozen = sf.compile([x], y)
    assert (frozen(X := sf.ones(2)) == frozen(X)).all()
    fresh = sf.jit(write)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (fresh(X) != fresh(X)).any()


def test_what_is_drawn_to_stay_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = sf.placeholder((2,), name="x")
        w = sf.rand(2)
        layer = sf.nn.Linear(2, 2)
        y = layer(x * w) * sf.tensor([1.0, 2.0])
        sf.rand(3)
        sf.manual_seed(3)
        sf.compile([x], sf.nn.functional.dropout(y) * sf.ones(2))(sf.ones(2))
        for make in (lambda: sf.ones(4, 2), lambda: sf.arange(4), lambda: sf.ones(3, 2) > 0):
            sf.rand(3)
            sf.compile([x], x.sum() + make())


@pytest.mark.parametrize("made", ["argument", "parameter", "detached", "integers", "no_grad"])
def test_whether_a_gradient_is_required_is_answered_or_refused(made):
    w = sf.ones(2, requires_grad=True)

    def value(x):
        with sf.set_grad_enabled(made != "no_grad"):
            return {
                "argument": x,
                "parameter": w,
                "detached": x.detach(),
                "integers": x.long(),
                "no_grad": x * w,
            }[made]

    def fn(x):
        return x * (2 if value(x).requires_grad else 3)

    x = sf.ones(2, requires_grad=True)
    if made == "argument":
        with pytest.raises(
            sf.SymbolicError, match=r"requires_grad of a symbolic.*test_meaning\.py"
        ):
            sf.jit(fn)(x)
    else:
        assert sf.jit(fn)(x).tolist() == fn(x).tolist()


def test_transforms_respect_the_mode_inside_and_not_outside():
    def fn(x):
        with sf.no_grad():
            b = x * 2
        return (b * x).sum()

    x = sf.tensor([3.0])
    for run in (lambda f: f, sf.jit):
        with sf.no_grad():
            assert run(sf.func.grad(fn))(x).tolist() == [6.0]
        assert run(sf.func.grad(fn))(x).tolist() == [6.0]
        assert run(lambda x: sf.func.jvp(fn, (x,), (sf.ones(1),))[1])(x).item() == 6.0


def pulled(out, pullback):
    return pullback(out * 0 + 1)[0]


@pytest.mark.parametrize(
    ("transform", "want"),
    [
        (lambda x, w: sf.func.grad(lambda v: (v * v * w).sum())(x), [1.0, -8.0]),
        (lambda x, w: sf.func.jacrev(lambda v: v * v * w)(x).sum(0), [1.0, -8.0]),
        (lambda x, w: pulled(*sf.func.vjp(lambda v: v * v * w, x)), [1.0, -8.0]),
        (
            lambda x, w: sf.func.grad(
                lambda v: (sf.func.grad(lambda u: (u**3 * w).sum())(v) * v).sum()
            )(x),
            [4.5, -72.0],
        ),
    ],
    ids=["grad", "jacrev", "vjp", "grad of grad"],
)
@pytest.mark.parametrize("run", [lambda f: f, sf.jit], ids=["eager", "jit"])
def test_transforms_of_what_requires_a_gradient_without_recording(transform, want, run):
    def fn(x, w):
        with sf.no_grad():
            return transform(x, w)

    x, w = sf.tensor([1.0, 2.0], requires_grad=True), sf.tensor([0.5, -2.0], requires_grad=True)
    found = run(fn)(x, w)
    np.testing.assert_allclose(found.numpy(), want, 1e-5)  # PyTorch's, without history
