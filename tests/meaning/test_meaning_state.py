"""What changes after a program was made: it means what the eager call does, or says so."""

import copy
import gc
import weakref

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn

X = sf.tensor([[1.0, 2.0], [3.0, -1.0]])
HERE = r"test_meaning_state\.py:\d+"


def trained(layer, **options):
    """A step of training of a layer of 2 features, compiled."""
    opt = sf.optim.SGD([p for p in layer.parameters() if p.requires_grad], lr=0.1, **options)
    x = sf.placeholder((None, 2), name="x")
    loss = (layer(x) ** 2).mean()
    return sf.compile([x], loss, updates=opt.minimize(loss))


def run_compiled(layer):
    x = sf.placeholder((None, 2), name="x")
    return sf.compile([x], layer(x))


RUNS = {"compile": run_compiled, "jit": lambda layer: sf.jit(lambda x: layer(x))}


@pytest.fixture
def layer():
    sf.manual_seed(0)
    return nn.Linear(2, 2)


# -- what requires a gradient ---------------------------------------------------------------------


def test_a_frozen_parameter_ends_a_step_of_training(layer):
    step = trained(layer)
    step(X)
    layer.bias.requires_grad_(False)
    before = [p.tolist() for p in layer.parameters()]
    with pytest.raises(sf.AutogradError, match=rf"bias.* requires no gradient any more.*{HERE}"):
        step(X)
    assert before == [p.tolist() for p in layer.parameters()]
    layer.bias.requires_grad_(True)
    step(X)
    assert before != [p.tolist() for p in layer.parameters()]


def test_a_parameter_that_is_to_be_trained_ends_a_step_without_it(layer):
    layer.bias.requires_grad = False
    step = trained(layer)
    before = layer.bias.tolist()
    step(X)
    assert layer.bias.tolist() == before
    layer.requires_grad_(True)
    with pytest.raises(sf.AutogradError, match=r"bias.* now requires a gradient"):
        step(X)


def test_what_only_computes_goes_on(layer):
    for make in RUNS.values():
        run = make(layer)
        want = run(X)
        layer.requires_grad_(False)
        assert (run(X) == want).all()
        layer.requires_grad_(True)


def test_jit_follows_what_requires_a_gradient(layer):
    run = sf.jit(lambda x: layer(x).sum())
    for frozen in (True, False, True):
        layer.zero_grad()
        layer.bias.requires_grad_(not frozen)
        run(X).backward()
        assert (layer.bias.grad is None) == frozen
        assert layer.weight.grad is not None
    assert run.compile_count == 1


# -- hooks ----------------------------------------------------------------------------------------


def test_hooks_of_parameters_are_part_of_a_step_of_training():
    answers = []
    for compiled in (False, True):
        sf.manual_seed(0)
        layer = nn.Linear(2, 2)
        layer.weight.register_hook(lambda g: g * 3)
        layer.bias.register_hook(lambda g: None)
        if compiled:
            trained(layer)(X)
        else:
            opt = sf.optim.SGD(layer.parameters(), lr=0.1)
            (layer(X) ** 2).mean().backward()
            opt.step()
        answers.append([p.detach().numpy() for p in layer.parameters()])
    for a, b in zip(*answers, strict=True):
        np.testing.assert_allclose(a, b, 1e-6)


def test_hooks_that_come_later_end_a_step_of_training(layer):
    step = trained(layer)
    handle = layer.weight.register_hook(lambda g: g * 0)
    with pytest.raises(sf.AutogradError, match=rf"weight.* has other hooks than.*{HERE}"):
        step(X)
    handle.remove()
    step(X)


def test_hooks_behind_accumulation_are_refused(layer):
    layer.weight.register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(sf.AutogradError, match=rf"post accumulate grad hook of weight.*{HERE}"):
        trained(layer)


@pytest.mark.parametrize(
    "register",
    [
        lambda m: m.register_forward_hook(lambda m, args, out: out * 2),
        lambda m: m.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        lambda m: m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,)),
        lambda m: m.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,)),
    ],
    ids=["forward", "before forward", "backward", "before backward"],
)
def test_hooks_of_modules_are_those_of_the_call(layer, register):
    jitted = sf.jit(lambda x: layer(x).sin())

    def answers():
        found = []
        for run in (lambda x: layer(x).sin(), jitted):
            x = X.clone().requires_grad_()
            y = run(x)
            y.sum().backward()
            found.append((y.detach().numpy(), x.grad.numpy()))
        return found

    alone = answers()
    handle = register(layer)
    hooked = answers()
    handle.remove()
    again = answers()
    assert not np.allclose(np.stack(alone[0]), np.stack(hooked[0]))
    for eager, compiled in (alone, hooked, again):
        for a, b in zip(eager, compiled, strict=True):
            np.testing.assert_allclose(b, a, 1e-6)


# -- memory ---------------------------------------------------------------------------------------


def _filled(layer):
    layer.weight.data.fill_(2.0)


def _given_data(layer):
    layer.weight.data = sf.ones(2, 2) * 3


def _set(layer):
    layer.weight.detach().set_(sf.ones(2, 2))
    with sf.no_grad():
        layer.weight.set_(sf.ones(2, 2) * 4)


def _loaded(layer):
    layer.load_state_dict({"weight": sf.ones(2, 2), "bias": sf.zeros(2)})


def _changed_without_recording(layer):
    with sf.no_grad():
        layer.weight[0] = 7.0


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    "change", [_filled, _given_data, _set, _loaded, _changed_without_recording]
)
def test_new_elements_are_read(layer, run, change):
    program = RUNS[run](layer)
    program(X)
    change(layer)
    np.testing.assert_allclose(program(X).detach().numpy(), layer(X).detach().numpy(), 1e-6)


def test_another_dtype(layer):
    program, jitted = (make(layer) for make in RUNS.values())
    program(X), jitted(X)
    layer.double()
    wide = X.double()
    with pytest.raises(sf.DTypeError, match=r"f64|float64"):
        program(wide)
    np.testing.assert_allclose(jitted(wide).detach().numpy(), layer(wide).detach().numpy(), 1e-12)


# -- what stands in another's place ---------------------------------------------------------------


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter([1.0, 2.0])
        self.register_buffer("shift", sf.ones(2))
        self.table = sf.tensor([3.0, 4.0])

    def forward(self, x):
        return (x * self.weight + self.shift) * self.table


REPLACED = {
    "weight": lambda: nn.Parameter([5.0, 6.0]),
    "shift": lambda: sf.zeros(2),
    "table": lambda: sf.ones(2),
}


@pytest.mark.parametrize("name", REPLACED)
def test_jit_takes_what_stands_in_its_place(name):
    model = Scaled()
    run = sf.jit(lambda x: model(x))
    run(X)
    setattr(model, name, REPLACED[name]())
    assert (run(X) == model(X)).all()
    assert run.compile_count == 2


@pytest.mark.parametrize("name", REPLACED)
def test_a_program_says_what_stands_in_its_place(name):
    model = Scaled()
    program = run_compiled(model)
    before, want = getattr(model, name), program(X)
    setattr(model, name, REPLACED[name]())
    with pytest.raises(
        sf.SymbolicError, match=rf"Scaled\.{name} was replaced by another tensor, at .*{HERE}"
    ):
        program(X)
    setattr(model, name, before)
    assert (program(X) == want).all()


def test_what_another_module_replaces_is_not_the_programs():
    model, other = Scaled(), Scaled()
    other.shift = model.shift
    program = run_compiled(model)
    want = program(X)
    other.shift = sf.zeros(2)
    assert (program(X) == want).all()


def test_parameters_given_for_one_call_replace_nothing():
    model = Scaled()
    program = run_compiled(model)
    want = program(X)
    sf.func.functional_call(model, {"weight": sf.zeros(2)}, X, strict=False)
    assert (program(X) == want).all()


# -- training, copies, defaults -------------------------------------------------------------------


def test_jit_follows_the_training_mode():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    twin = copy.deepcopy(model)
    run = sf.jit(lambda x: model(x))
    for training in (True, False, True, False):
        model.train(training), twin.train(training)
        sf.manual_seed(1)
        got = run(X)
        sf.manual_seed(1)
        np.testing.assert_allclose(got.detach().numpy(), twin(X).detach().numpy(), 1e-5)
        for a, b in zip(model.buffers(), twin.buffers(), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-6)


class Asking(nn.Module):
    """Computes otherwise in training, in a method and a loop of its own."""

    def forward(self, x):
        return sf.fori_loop(0, 2, lambda i, c: self._step(c), x)

    def _step(self, x):
        return x * (2.0 if self.training else 3.0)


MODES = {
    "batch norm": lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)),
    "dropout": lambda: nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)),
    "dropout first": lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2)),
    "recurrent": lambda: nn.Sequential(nn.LSTM(2, 2, 2, dropout=0.5), First()),
    "own": Asking,
}


class First(nn.Module):
    def forward(self, x):
        return x[0]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", MODES.values(), ids=MODES)
def test_a_program_runs_in_the_mode_that_it_was_written_in(make, training):
    model = make()
    x = sf.placeholder((2, 2), name="x")
    program = sf.compile([x], model.train(training)(x))
    model.train(not training)
    other = sf.compile([x], model(x))  # one for each mode
    now, then = ("evaluation", "training") if training else ("training", "evaluation")
    for _ in range(2):
        with pytest.raises(
            sf.SymbolicError, match=rf"in {now} mode, and it was in {then} mode.*{HERE}.*{HERE}"
        ):
            program(X)
        other(X)
    model.train(training)
    before = [b.tolist() for b in model.buffers()]
    program(X)
    assert training or before == [b.tolist() for b in model.buffers()]
    model.train(not training), model.train(training)
    program(X)


def test_a_step_of_training_that_gives_nothing_runs_in_training():
    model = MODES["dropout first"]()
    opt = sf.optim.SGD(model.parameters(), lr=0.1)
    x = sf.placeholder((None, 2), name="x")
    step = sf.compile([x], updates=opt.minimize(model(x).sum()))
    model.eval()
    before = model[1].weight.tolist()
    with pytest.raises(sf.SymbolicError, match="Dropout is in evaluation mode"):
        step(X)
    assert model[1].weight.tolist() == before


LOOPS = {
    "scan": lambda m, x: sf.scan(lambda c, _: (m(c), None), x, length=2)[0],
    "fori": lambda m, x: sf.fori_loop(0, 2, lambda i, c: m(c), x),
    "while": lambda m, x: sf.while_loop(lambda c: c.sum() < 9, lambda c: m(c) + 1, x),
    "map": lambda m, x: sf.map(lambda row: m(row[None])[0], x),
    "cond": lambda m, x: sf.cond(x.sum() > 0, lambda: m(x), lambda: x),
    "branch in a loop": lambda m, x: sf.fori_loop(
        0, 2, lambda i, c: sf.cond(c.sum() > 0, lambda: m(c), lambda: c), x
    ),
    "derivative": lambda m, x: sf.grad(LOOPS["scan"](m, x).sum(), x),
    "layer behind a layer": lambda m, x: m(x.exp()),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("training", [True, False])
def test_a_module_without_a_model_is_in_its_mode_also_in_loops(loop, training):
    layer = nn.Dropout(0.5).train(training)
    x = sf.placeholder((2, 2), name="x")
    program = sf.compile([x], LOOPS[loop](layer, x))
    program(X)
    layer.train(not training)
    with pytest.raises(sf.SymbolicError, match="Dropout is in"):
        program(X)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(2, 2),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout(0.0)),
        lambda: nn.Sequential(nn.LSTM(2, 2), First()),
        lambda: nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0),
    ],
)
def test_what_computes_the_same_in_both_modes_runs_in_both(make):
    model = make()
    program = run_compiled(model)
    want = program(X)
    model.eval()
    assert (program(X) == want).all()


def test_a_program_of_both_modes_runs_in_both():
    layer = nn.Dropout(0.5)
    x = sf.placeholder((None, 2), name="x")
    program = sf.compile([x], [layer(x), layer.eval()(x.exp())])
    program(X)
    layer.train()
    program(X)


def test_the_way_back_is_that_of_the_call():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    run = sf.jit(lambda x: model(x))
    for change in (model.eval, lambda: setattr(model[0], "weight", nn.Parameter(sf.ones(2, 2)))):
        model.train()
        loss = run(X).sum()
        was = model[0].weight
        change()
        loss.backward()
        assert was.grad is not None


def test_a_program_keeps_no_module_alive():
    layer = nn.Dropout(0.5)
    program = run_compiled(layer)
    ref = weakref.ref(layer)
    layer.eval()
    del layer
    gc.collect()
    assert ref() is None
    program(X)


# -- modules in the place of others ---------------------------------------------------------------


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.layers = nn.ModuleList([nn.Tanh(), nn.Linear(2, 2)])
        self.scales = nn.ParameterList([sf.ones(2), sf.ones(2)])
        self.steps = nn.Sequential(nn.ReLU(), nn.Sigmoid())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for scale in self.scales:
            x = x * scale
        return self.steps(self.act(x))


SWAPS = {
    "act": lambda m: setattr(m, "act", nn.GELU()),
    "act None": lambda m: delattr(m, "act"),
    "layers": lambda m: setattr(m, "layers", nn.ModuleList([nn.Tanh()])),
    "layers[0]": lambda m: m.layers.__setitem__(0, nn.GELU()),
    "layers.append": lambda m: m.layers.append(nn.GELU()),
    "layers.pop": lambda m: m.layers.pop(),
    "scales[0]": lambda m: m.scales.__setitem__(0, sf.ones(2) * 2),
    "scales.append": lambda m: m.scales.append(sf.ones(2) * 2),
    "steps[0]": lambda m: m.steps.__setitem__(0, nn.GELU()),
    "steps.insert": lambda m: m.steps.insert(0, nn.GELU()),
    "steps.append": lambda m: m.steps.append(nn.GELU()),
    "del steps[0]": lambda m: m.steps.__delitem__(0),
}


@pytest.mark.parametrize("swap", SWAPS)
def test_modules_in_the_place_of_others(swap):
    model = Listed()
    program, jitted = (make(model) for make in RUNS.values())
    before = {k: v for k, v in vars(model).items() if k in ("act", "layers", "scales", "steps")}
    want = program(X)
    assert (jitted(X) == want).all()
    SWAPS[swap](model)
    with pytest.raises(sf.SymbolicError, match=rf"was replaced|was taken|is a further.*{HERE}"):
        program(X)
    if "None" not in swap:
        np.testing.assert_allclose(jitted(X).detach(), model(X).detach(), 1e-5)
    if swap in ("act", "act None", "layers"):
        for name, value in before.items():
            setattr(model, name, value)
        assert (program(X) == want).all()


def test_another_module_beside_those_that_were_called():
    model = Listed()
    program = run_compiled(model)
    model.metric = nn.Linear(2, 2)
    model.metric = nn.Linear(2, 2)
    program(X)


def test_hooks_of_modules_are_those_of_the_program(layer):
    program = run_compiled(layer)
    want = program(X)
    handle = layer.register_forward_hook(lambda m, args, out: out * 2)
    with pytest.raises(sf.SymbolicError, match=rf"Linear has other hooks than.*{HERE}"):
        program(X)
    hooked = run_compiled(layer)
    assert (hooked(X) == want * 2).all()
    handle.remove()
    assert (program(X) == want).all()
    with pytest.raises(sf.SymbolicError, match="Linear has other hooks than"):
        hooked(X)


@pytest.mark.parametrize("run", RUNS)
def test_a_copy_is_apart(layer, run):
    program = RUNS[run](layer)
    want = program(X)
    twin = copy.deepcopy(layer)
    program_of_twin = RUNS[run](twin)
    with sf.no_grad():
        twin.weight.zero_()
    assert (program(X) == want).all()
    assert (program_of_twin(X) == twin(X)).all()


def test_the_default_dtype_is_that_of_the_trace():
    def fn(x):
        return x.sum() + sf.ones(2) * 0.1

    run = sf.jit(fn)
    found = []
    for dtype in ("float32", "float64", "float32"):
        sf.set_default_dtype(dtype)
        try:
            found.append((run(X).dtype, fn(X).dtype))
        finally:
            sf.set_default_dtype("float32")
    assert [a for a, _ in found] == [b for _, b in found]


def test_nobody_is_remembered_who_is_gone():
    from staticflow.ops.symbols.dependents import _dependents

    gc.collect()
    before = len(_dependents)
    model = Scaled()
    program = run_compiled(model)
    assert len(_dependents) == before + 4
    del program, model
    gc.collect()
    assert len(_dependents) == before


# -- what is traced has no effect ----------------------------------------------------------------


EFFECTS = {
    "requires a gradient": (lambda w: w.requires_grad_(), sf.SymbolicError, "call it before"),
    "requires none": (
        lambda w: setattr(w, "requires_grad", True), sf.SymbolicError, "call it before"
    ),
    "memory": (lambda w: w.numpy().fill(2.0), ValueError, "read-only"),
    "array": (lambda w: np.asarray(w).fill(2.0), ValueError, "read-only"),
}  # fmt: skip


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("way", ["jit", "loop", "branch"])
def test_a_trace_changes_no_tensor(effect, way):
    change, kind, message = EFFECTS[effect]
    w, x = sf.ones(2), sf.placeholder((2,), name="x")

    def fn(c):
        change(w)
        return c * w

    ways = {
        "jit": lambda: sf.jit(fn)(sf.ones(2)),
        "loop": lambda: sf.fori_loop(0, 2, lambda i, c: fn(c), x),
        "branch": lambda: sf.cond(x.sum() > 0, fn, lambda c: c, x),
    }
    with pytest.raises(kind, match=message) as refusal:
        ways[way]()
    assert kind is ValueError or "test_meaning_state.py" in str(refusal.value)
    assert not w.requires_grad and w.tolist() == [1.0, 1.0]


def test_what_a_trace_makes_may_require_a_gradient():
    def fn(x):
        return x + sf.tensor([1.0], requires_grad=True) * nn.Parameter([2.0, 3.0])

    assert sf.jit(fn)(sf.ones(2)).tolist() == [3.0, 4.0]


@pytest.mark.parametrize("make", [lambda x: x.detach(), lambda x: x.to(sf.int64)])
def test_a_hook_of_what_has_no_gradient(make):
    for x in (sf.placeholder((2,), name="x"), sf.ones(2, requires_grad=True)):
        with pytest.raises(sf.AutogradError, match=rf"nothing would ever come.*{HERE}"):
            make(x).register_hook(lambda g: g)
