"""Programs on disk: found by all that decides them and by nothing else, and then neither optimised
nor made text of; what they say and do is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept_programs import keeping
from opinfo import ROWS
from opinfo.modes import arrays_of, call
from slices import daily
from static_programs import PROGRAMS

import staticflow as sf
from staticflow.codegen.llvm import routine as routine_text
from staticflow.config import config
from staticflow.errors import IndexRangeError, ShapeError, VerifyError
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.identity import identify_graph
from staticflow.ops import OPS
from staticflow.runtime import drafting, recipe
from staticflow.runtime.code_cache import code_cache
from staticflow.runtime.program_cache import find_program
from staticflow.runtime.recipe import Recipe, identify


@pytest.fixture(autouse=True)
def keep(tmp_path: Path) -> Iterator[None]:
    with keeping(tmp_path):
        yield


class Counts(dict[str, int]):
    """How often passes ran and text was made."""

    def of(self, make: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
        """What ``make`` gives, and what it took."""
        self.update(optimize=0, render_draft=0)
        return make(), dict(self)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found = Counts(optimize=0, render_draft=0)
    for name in ("optimize", "render_draft"):
        monkeypatch.setattr(drafting, name, counted(found, name, getattr(drafting, name)))
    return found


def counted(counts: Counts, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        counts[name] += 1
        return fn(*args, **kwargs)

    return run


NOTHING = {"optimize": 0, "render_draft": 0}
ALL = {"optimize": 1, "render_draft": 1}


def chain(width: int = 4, **options: Any) -> sf.Program:
    x = sf.placeholder((None, width), name="x")
    w = sf.full((width, width), 0.5)
    return sf.compile({"x": x}, {"y": (x @ w).relu(), "z": (x * 2).sum(0)}, **options)


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def test_what_was_compiled_before_is_neither_optimised_nor_text(counts: Counts) -> None:
    first, took = counts.of(chain)
    assert took == ALL
    second, took = counts.of(chain)
    assert took == NOTHING
    for rows in (1, 3):
        for a, b in zip(*(p(ones(rows, 4)).values() for p in (first, second)), strict=True):
            assert a.tolist() == b.tolist()
    assert repr(second).split(", made")[0] == repr(first).split(", made")[0]
    assert second.kernel_count == first.kernel_count and second.donations == ()
    second(ones(5, 4))
    assert dict(counts) == NOTHING


@pytest.mark.parametrize("ask", [
    lambda p: p.source(), lambda p: p.source("asm"), lambda p: p.source("kernels"),
    lambda p: str(p.plan), lambda p: str(p.optimized), lambda p: [r.name for r in p.passes],
    lambda p: p.explain("graph"), lambda p: p.explain("routine"), lambda p: p.work(x_0=16),
], ids=["llvm", "asm", "kernels", "plan", "optimized", "passes", "graph", "routine", "work"])  # fmt: skip
def test_what_it_says_is_made_when_it_is_asked_for(
    ask: Callable[[sf.Program], Any], counts: Counts
) -> None:
    wanted = ask(chain())
    program = chain()
    found, took = counts.of(lambda: ask(program))
    assert found == wanted and took["optimize"] == 1
    ask(program)
    assert counts["optimize"] == 1 and counts["render_draft"] <= 1


def test_a_call_that_the_entry_does_not_take(counts: Counts) -> None:
    first, second = chain(), counts.of(chain)[0]
    turned, row = np.ones((4, 6), np.float32)[:, :3].T, np.ones((1, 4), np.float32)
    repeated = np.broadcast_to(row, (3, 4))
    for apart in (turned, repeated, turned[::-1]):
        assert first(apart)["y"].tolist() == second(apart)["y"].tolist()
    assert not any(counts.values())  # copies are all that these need
    for wrong in (ones(3, 5), ones(3)):
        words = []
        for program in (first, second):
            with pytest.raises(ShapeError) as error:
                program(wrong)
            words.append(str(error.value).split("; the program")[0])
        assert words[0] == words[1]


def take(rows: Any) -> sf.Program:
    x, i = sf.placeholder((None, 2), name="x"), sf.placeholder((None,), "int64", name="i")
    return sf.compile([x, i], x[i] * rows)


def test_the_lines_of_an_error_are_those_of_the_code_that_runs(counts: Counts) -> None:
    take(3.0)
    x, i = sf.placeholder((None, 2), name="x"), sf.placeholder((None,), "int64", name="i")
    chosen, here = x[i], sys._getframe().f_lineno
    program, took = counts.of(lambda: sf.compile([x, i], chosen * 3.0))
    assert took == NOTHING
    with pytest.raises(IndexRangeError, match=f"{Path(__file__).name}:{here}.*nothing was updated"):
        program(ones(3, 2), np.array([0, 7]))


def test_what_is_updated_is_that_of_the_program(counts: Counts) -> None:
    def train() -> tuple[sf.Program, sf.Tensor]:
        x, w = sf.placeholder((None, 2), name="x"), sf.variable(sf.ones(2), name="w")
        return sf.compile([x], (x * w).sum(), updates={w: w - 0.1 * x.sum(dim=0)}), w

    (first, v), (second, w) = train(), train()
    for _ in range(2):
        assert first(ones(3, 2)).item() == second(ones(3, 2)).item()
    first(ones(3, 2))
    assert w.tolist() != v.tolist()
    second(ones(3, 2))
    assert w.tolist() == v.tolist()


# -- keys ----------------------------------------------------------------------------------------


def key_of(program: sf.Program) -> bytes:
    options, written = program.options, program._written
    key = identify(Recipe(
        written.graph, written.names, written.updated, options.numerics, options.passes,
        written.donated, options.flush_subnormals,
    ))  # fmt: skip
    assert key is not None
    return key


def variants() -> Iterator[tuple[str, Callable[[], sf.Program]]]:
    yield "plain", chain
    yield "width", lambda: chain(5)
    for options in (
        {"numerics": "exact"}, {"numerics": "fast"}, {"stabilize": False},
        {"passes": "-fuse"}, {"passes": "-reorder"}, {"flush_subnormals": True},
    ):  # fmt: skip
        yield str(options), lambda options=options: chain(**options)
    for dtype in ("float64", "float16", "bfloat16", "int32"):
        x = sf.placeholder((None, 4), dtype, name="x")
        yield dtype, lambda x=x: sf.compile([x], x * 2)
    for shape in ((3, 4), (None, None), (4, None), (1, 4)):
        x = sf.placeholder(shape, name="x")
        yield str(shape), lambda x=x: sf.compile([x], x * 2)
    for number in (2.0, -0.0, 0.0, 1e-45, float("nan"), float("inf")):
        x = sf.placeholder((3,), name="x")
        yield str(number), lambda x=x, number=number: sf.compile([x], x * number)
    for values in ([1.0, 2.0], [2.0, 1.0], [[1.0, 2.0]], range(20), range(1, 21)):
        x = sf.placeholder((None, 1), name="x")
        literal = np.array([*values], np.float32)
        yield str(values), lambda x=x, literal=literal: sf.compile([x], x * literal)
    a, b = sf.placeholder((3,), name="a"), sf.placeholder((3,), name="b")
    yield "a - b", lambda: sf.compile([a, b], a - b)
    yield "b - a", lambda: sf.compile([a, b], b - a)
    yield "both", lambda: sf.compile([a, b], [a - b, b - a])
    v, w = sf.ones(3), sf.ones(3)
    yield "two variables", lambda: sf.compile([a], a * v, updates={w: w + a})
    yield "one variable", lambda: sf.compile([a], a * w, updates={w: w + a})


def test_keys_differ_where_texts_do(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[bytes, str] = {}
    programs = [make() for _, make in variants()]
    for program in programs:
        assert found.setdefault(key_of(program), program.source()) == program.source()
    assert len(found) == len(programs)
    key = key_of(programs[0])
    for name, value in (
        ("package_state", b"another release"),
        ("machine_parts", ("another processor",)),
        ("most_workers", recipe.most_workers() + 1),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(recipe, name, lambda value=value: value)
            assert key_of(programs[0]) != key
    sf.set_default_dtype(sf.float64)
    try:
        assert key_of(programs[0]) != key
    finally:
        sf.set_default_dtype(sf.float32)
    assert key_of(programs[0]) == key


@pytest.mark.parametrize("name", daily([*ROWS], 20, "program keys"))
def test_keys_of_every_op_tell_its_programs_apart(name: str) -> None:
    """What two programs with one key say of themselves is one text, and each is found again."""
    info, texts = ROWS[name], dict[bytes, str]()
    for dtype in info.dtypes[:3]:
        for sample in daily([*info.samples(dtype, False)], 4, name):
            for unknown in (False, True):
                inputs = [
                    sf.placeholder(
                        tuple(None if unknown and n != 1 else n for n in a.shape),
                        dtype_of(a.dtype), name=f"x{i}",
                    )
                    for i, a in enumerate(arrays_of(sample))
                ]  # fmt: skip
                with config.change(verify=True):  # a program that is found is compiled, too
                    program = sf.compile(inputs, call(info, sample, inputs))
                    sf.compile(inputs, call(info, sample, inputs))
                code = program._executable.code
                if code.entry is not None and not code.asks:
                    cache = code_cache()
                    assert cache is not None
                    found = find_program(cache, key_of(program))
                    assert found is not None and found.object.key == code.object.key
                text = program.source()
                assert texts.setdefault(key_of(program), text) == text


KEYS = """
import sys
sys.path[:0] = {folders!r}
import staticflow as sf
from static_programs import PROGRAMS
from test_program_cache import key_of, variants
sizes = dict(n=None, m=None, k=None)
for name, (fn, shapes) in PROGRAMS.items():
    inputs = [sf.placeholder(tuple(sizes[s] for s in shape), name=f"x{{i}}") for i, shape in enumerate(shapes)]
    print(name, key_of(sf.compile(inputs, fn(*inputs))).hex())
for name, make in variants():
    print(name, key_of(make()).hex())
"""


def test_keys_are_those_of_other_processes(tmp_path: Path) -> None:
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    printed = [
        subprocess.run(
            [sys.executable, "-c", prefix + KEYS.format(folders=folders)],
            env=os.environ | {"PYTHONHASHSEED": seed, "STATICFLOW_CACHE_DIR": str(tmp_path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for prefix, seed in (("", "1"), ("\n\nunused = object()", "2"))
    ]  # fmt: skip
    assert printed[0] == printed[1] and len(printed[0].splitlines()) > 30


def test_a_program_that_is_found_is_the_one_that_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a key does not say, as what a test changes inside of staticflow, is seen so."""
    with config.change(verify=True):
        wanted = chain().source()
        assert chain().source() == wanted
        monkeypatch.setattr(routine_text, "LOOK", routine_text.LOOK + "; another text\n")
        with pytest.raises(VerifyError, match="has another program for this graph"):
            chain()


# -- what is not kept ----------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [
    {"poison": True}, {"dump": "{folder}/stages"}, {"fast_call": False}, {"cache_dir": ""},
], ids=str)  # fmt: skip
def test_where_more_is_asked_for_programs_are_compiled(
    settings: dict[str, Any], counts: Counts, tmp_path: Path
) -> None:
    chain()
    given = {k: v.format(folder=tmp_path) if isinstance(v, str) else v for k, v in settings.items()}
    with config.change(**given):
        assert counts.of(chain)[1] == ALL and counts.of(chain)[1] == ALL
    assert counts.of(chain)[1] == NOTHING


def test_what_needs_python_is_compiled(counts: Counts) -> None:
    def eigenvalues() -> sf.Program:
        x = sf.placeholder((3, 3), name="x")
        return sf.compile([x], sf.linalg.eigvalsh(x))

    def given_away() -> sf.Program:
        x = sf.placeholder((3,), name="x")
        return sf.compile([x], x * 2, donate=x)

    for make in (eigenvalues, given_away):
        make()
        assert counts.of(make)[1] == ALL


def test_an_operation_of_a_users_has_no_key() -> None:
    graph = chain().graph
    assert identify_graph(graph, OPS) is not None
    assert identify_graph(graph, {name: op for name, op in OPS.items() if name != "relu"}) is None


def test_a_damaged_or_missing_entry_is_compiled_anew(counts: Counts, tmp_path: Path) -> None:
    wanted = chain()(ones(2, 4))["y"].tolist()
    for file in tmp_path.iterdir():  # also what a process reads once, such as its threads' code
        file.unlink()
    chain()
    whole = {file: file.read_bytes() for file in tmp_path.iterdir()}
    for file, data in whole.items():
        file.write_bytes(data[:-1])
        with pytest.warns(UserWarning, match="is damaged"):
            assert chain()(ones(2, 4))["y"].tolist() == wanted
        assert file.read_bytes() == data
        file.unlink()
        assert chain()(ones(2, 4))["y"].tolist() == wanted
        assert file.read_bytes() == data
        assert counts.of(chain)[1] == NOTHING


# -- whole processes -----------------------------------------------------------------------------

SCRIPT = """
import numpy as np
import staticflow as sf
from staticflow.runtime import compiler, drafting

made = []

def count(module, name):
    fn = getattr(module, name)
    setattr(module, name, lambda *a, **k: made.append(name) or fn(*a, **k))

count(drafting, "optimize"), count(drafting, "render_draft")
count(drafting, "render_entry"), count(compiler, "_module_of")
sf.manual_seed(3)
model = sf.nn.Sequential(sf.nn.Linear(8, 16), sf.nn.ReLU(), sf.nn.Dropout(0.5), sf.nn.Linear(16, 2))
x, y = sf.placeholder((None, 8), name="x"), sf.placeholder((None,), "int64", name="y")
loss = sf.nn.functional.cross_entropy(model(x), y)
step = sf.compile([x, y], loss, updates=sf.optim.Adam(model.parameters()).minimize(loss))
rows, classes = np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 8), np.arange(5) % 2
print([step(rows, classes).item() for _ in range(3)])
z = sf.placeholder((None, 3), name="z")
scan = sf.compile([z], sf.grad(sf.scan(lambda c, r: (c * r.tanh(), c.sum()), sf.ones(3), z)[1].sum(), z))
print(scan(sf.ones(4, 3)).tolist())
loop = sf.compile([z], sf.while_loop(lambda v: v.sum() < 90, lambda v: v * 2, z))
print(loop(sf.ones(4, 3)).tolist())
fn = sf.jit(lambda v: (v.exp() * v).sum(1))
w = sf.ones(300, 40, requires_grad=True)
fn(w).sum().backward()
print(w.grad.sum().item())
v = sf.ones(600, 500, requires_grad=True)
(v @ v.T).softmax(1).square().sum().backward()
print(v.grad.sum().item())
print(sorted(set(made)))
"""


def test_a_script_that_ran_before_makes_nothing(tmp_path: Path) -> None:
    def run() -> list[str]:
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-c", SCRIPT],
            env=os.environ | {"STATICFLOW_CACHE_DIR": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not ended.returncode, ended.stderr
        return ended.stdout.splitlines()

    (*numbers, made), (*again, none) = run(), run()
    assert numbers == again
    assert eval(made) == ["_module_of", "optimize", "render_draft", "render_entry"] and none == "[]"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_unknown_sizes_give_the_same_bits(name: str, counts: Counts) -> None:
    fn, shapes = PROGRAMS[name]
    numbers = {"n": 5, "m": 7, "k": 3}
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=[numbers[s] for s in shape]).astype(np.float32) for shape in shapes]

    def make() -> sf.Program:
        inputs = [
            sf.placeholder((None,) * len(shape), name=f"x{i}") for i, shape in enumerate(shapes)
        ]
        return sf.compile(inputs, fn(*inputs))

    wanted = sf.pytree.flatten(make()(*arrays))[0]
    program, took = counts.of(make)
    assert took == NOTHING
    for a, b in zip(sf.pytree.flatten(program(*arrays))[0], wanted, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
