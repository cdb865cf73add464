"""``passes=`` of `compile` and `jit`: which passes run, and what is said of names that are none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import staticflow as sf
from staticflow.errors import ArgumentError
from staticflow.passes.order import (
    INSTEAD,
    INTO_KERNELS,
    NUMERICS,
    ON_A_GPU,
    ORDER,
    PASSES,
    choose_passes,
    is_allowed,
)
from staticflow.passes.pipeline import RUNS

ALL = [*PASSES]


def compile_chain(**options: Any) -> Any:
    x = sf.placeholder((None,), name="x")
    return sf.compile([x], (-(-x)).sin() * 2 + x.cos(), **options)


def names(passes: Any, numerics: str = "strict") -> list[str]:
    return [*choose_passes(passes, numerics)]


def test_all_run_unless_said() -> None:
    assert names(None) == ALL


def test_one_is_left_out_in_any_form() -> None:
    wanted = [name for name in ALL if name != "hoist"]
    assert names("-hoist") == names(["-hoist"]) == names(("-hoist", "-hoist")) == wanted
    assert names("-hoist, -fold") == [name for name in wanted if name != "fold"]


def test_those_that_are_named_run_in_their_order_and_what_is_needed_where_it_may() -> None:
    needed = ["decompose", "write_attention", "copy_strided", "separate"]
    assert sorted(names([])) == sorted(names("")) == sorted(needed)
    found = [name for name in names(["canonicalize", "fuse"]) if name != "write_attention"]
    assert found == ["decompose", "canonicalize", "copy_strided", "fuse"]


def test_without_fusion_each_operation_is_a_kernel() -> None:
    whole, apart = compile_chain(), compile_chain(passes="-fuse")
    assert (whole.kernel_count, apart.kernel_count) == (1, 4)
    x = sf.tensor([0.5, -2.0])
    assert whole(x).tolist() == apart(x).tolist()
    assert [r.name for r in apart.passes if r.name in ("fuse", "separate")] == ["separate"]


def test_rules_of_a_pass_that_is_left_out_do_not_fire() -> None:
    def rules(**options: Any) -> set[str]:
        return {rule for r in compile_chain(**options).passes for rule in r.counts}

    assert "minus_minus" in rules()
    assert "neg_neg" in rules(passes=["-stabilize"])
    left = rules(passes=["-stabilize", "-stabilize_more", "-canonicalize", "-simplify"])
    assert left.isdisjoint({"minus_minus", "neg_neg"})


def test_a_jitted_function_and_its_derivative_take_passes() -> None:
    @sf.jit(passes="-fuse")
    def f(x: Any) -> Any:
        return ((x.sin() * 2 + 1) * x).sum()

    x = sf.tensor([1.0, 2.0], requires_grad=True)
    f(x).backward()
    (program,) = f.programs
    assert "separate" in [r.name for r in program.passes]
    assert program.kernel_count == 5
    ((derived, _),) = [*program_derivatives(f)]
    ((_, backward),) = derived.programs.compiled
    assert "separate" in [r.name for r in backward.passes]


def program_derivatives(f: Any) -> Any:
    for kinds in f._traces.values():
        for kind in kinds:
            yield from kind.traced.backward.values()


@pytest.mark.parametrize(
    ("passes", "words"),
    [
        (["-fuze"], "there is no pass 'fuze'; did you mean 'fuse'? There are stabilize, "),
        ("nothing_like_it", "there is no pass 'nothing_like_it'. There are stabilize, "),
        ("-decompose", "'decompose' cannot be left out: many operations have no kernel"),
        (["-copy_strided"], "'copy_strided' cannot be left out: loops, branches and the caller"),
        ("fuse,-hoist", "'fuse' is one to run and '-hoist' one to leave out; name either"),
        (["fuse", "canonicalize"], "'canonicalize' runs before 'fuse': it takes operations, and"),
        (["fuse", "fuse"], "'fuse' runs once at most: what is a kernel"),
        (["scalar_loops", "scalar_loops"], "'scalar_loops' runs once at most"),
        (["relax"], "'relax' runs with numerics=\"fast\" only"),
        ([3], "3 is no name of a pass; give names, as in"),
        (3, "3 is no name of a pass; give names, as in"),
    ],
)
def test_wrong_names(passes: Any, words: str) -> None:
    for use in (compile_chain, lambda **options: sf.jit(abs, **options)):
        with pytest.raises(ArgumentError) as caught:
            use(passes=passes)
        assert str(caught.value).startswith(f"passes: {words}")
        assert "test_choose_passes.py" in str(caught.value)


def test_fast_ones_run_where_numerics_are_fast() -> None:
    wanted = ["write_attention", "relax", "decompose", "copy_strided", "separate"]
    assert names("relax", "fast") == wanted
    assert "relax" in [r.name for r in compile_chain(numerics="fast", passes="relax").passes]


def test_seconds_of_passes_and_phases_add_up() -> None:
    program = compile_chain()
    phases = program.phase_seconds
    assert all(r.seconds > 0 for r in program.passes)
    assert sum(r.seconds for r in program.passes) <= phases.optimise
    assert min(phases.close, phases.generate, phases.load) > 0
    assert phases.total == pytest.approx(program.compile_seconds)


# -- the page -------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "passes.md"
MARKS = "<!-- passes -->\n", "<!-- end of passes -->\n"


def table_of_passes() -> str:
    """A row for each pass: its docstring's first sentence, and what it has to run before."""
    rows = ["| pass | what it does | before |", "|---|---|---|"]
    for name in PASSES:
        first = re.split(r"\.(?=\s|$)", RUNS[name].__doc__ or "")[0].replace("``", "`")
        least = next(numerics for numerics in NUMERICS if is_allowed(name, numerics))
        what = " ".join(first.split()) + ("" if least == "exact" else f" (`{least}`)")
        late = [
            n for o in ORDER if name in o.first and len(o.then) < len(INTO_KERNELS) for n in o.then
        ]
        rows.append(f"| `{name}` | {what} | {', '.join(f'`{n}`' for n in late)} |")
    return "\n".join([*rows, ""])


def test_the_page_has_every_pass(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text()
    before, inside = text.split(MARKS[0])
    inside, after = inside.split(MARKS[1])
    if request.config.getoption("--bless"):
        PAGE.write_text("".join([before, MARKS[0], table_of_passes(), MARKS[1], after]))
        return
    assert inside == table_of_passes(), "pytest tests/passes --bless writes the table"


def test_every_pass_is_known_by_its_name() -> None:
    assert RUNS.keys() == {*PASSES, *INSTEAD.values(), *filter(None, ON_A_GPU.values())}
