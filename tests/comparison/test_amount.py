"""How much one call of a program does."""

from __future__ import annotations

import staticflow as sf
from staticflow.comparison.amount import Work, sizes_of_call, work_of_call
from staticflow.static.twin import late_sizes_finder


def test_the_work_of_a_call_is_that_of_its_sizes() -> None:
    w = sf.ones(8, 4)
    x = sf.placeholder((None, 8), name="x")
    step = sf.compile([x], (x @ w).relu().sum(), updates={w: sf.symbol(w) * 0.5})
    few, many = (work_of_call(step, sf.ones(n, 8)) for n in (16, 160))
    assert few is not None and many is not None
    assert many.flops - few.flops == 144 * 4 * (2 * 8 + 2)
    assert many.footprint - few.footprint >= 144 * 8 * 4  # what x has more


def test_variables_are_touched_once_and_read_and_written() -> None:
    w = sf.ones(1000)
    x = sf.placeholder((), name="x")
    assert work_of_call(sf.compile([x], None, updates={w: sf.symbol(w) * x}), sf.ones(())) == Work(
        bytes=8004, flops=1000, footprint=4004
    )


def test_only_a_run_can_tell_where_some_loops_end() -> None:
    x = sf.placeholder((), name="x")
    ends = sf.while_loop(lambda z: z < 100, lambda z: z * 2, x)
    rows = sf.scan(lambda c, _: (c + x, c), x, length=1000, until=lambda c, row: c > 5)[1]
    for output in (ends, rows):
        assert work_of_call(sf.compile([x], output), sf.ones(())) is None


def test_iterations_that_a_run_made_are_counted_as_the_runtime_counts_them() -> None:
    """A loop that ends by its values, of kernels that are launched in it."""
    x, w = sf.placeholder((None, 3), name="x"), sf.variable(sf.ones(3, 3))
    end = sf.while_loop(lambda y: y.sum() < 1000, lambda y: y @ sf.symbol(w), x)
    step = sf.compile([x], sf.grad(end.sum(), x), updates={w: sf.symbol(w) * 2})
    find = late_sizes_finder(step)
    for rows, iterations in ((2, 5), (50, 2)):
        given = sf.ones(rows, 3)
        late = find(given)
        assert late == {"iterations": iterations} and w[0, 0] == 1  # nothing was updated
        kernels = step.work(**sizes_of_call(step, [given]), **late)
        ran = {r.name: r.count for r in step.profile(given, repeat=1).rows if r.kind == "kernel"}
        assert {k.name: k.launches for k in kernels if k.name != "copy"} == ran
        work = work_of_call(step, given, late=late)
        assert work is not None and work.flops == sum(k.flops for k in kernels)
        assert not any(k.uncounted for k in kernels)


def test_a_loop_in_a_loop_that_ends_another_time_each_time_is_counted() -> None:
    x = sf.placeholder((2, 2), name="x")

    def row(carry: sf.Symbol, r: sf.Symbol) -> tuple[sf.Symbol, sf.Symbol]:
        return carry, sf.while_loop(lambda y: y.sum() < 99, lambda y: y @ carry * r, carry)

    step = sf.compile([x], sf.scan(row, x, sf.tensor([2.0, 30.0, 2.0]))[1])
    given = sf.ones(2, 2)
    late = late_sizes_finder(step)(given)
    assert late == {"iterations": [3, 1, 3]}
    kernels = step.work(**late)
    ran = {r.name: r.count for r in step.profile(given, repeat=1).rows if r.kind == "kernel"}
    assert {k.name: k.launches for k in kernels if k.name != "copy"} == ran
    work = work_of_call(step, given, late=late)
    assert work is not None and work_of_call(step, given) is None
    (product,) = (k for k in kernels if k.name.startswith("contract"))
    assert product.launches == 7 and product.flops % 7 == 0


def test_the_iterations_of_a_kernel_that_is_a_loop_are_counted() -> None:
    x = sf.placeholder((), name="x")
    step = sf.compile([x], sf.while_loop(lambda a: a < 1000, lambda a: a * 1.5 + 1, x))
    assert step.work()[0].uncounted == ("iterations",)
    find, many = late_sizes_finder(step), sf.tensor(-1.5 * 2.0**30)
    for start, iterations in ((sf.tensor(5000.0), 0), (sf.tensor(999.0), 1), (sf.tensor(1.0), 15)):
        late = find(start)
        assert late == {"iterations": iterations}
        (kernel,) = step.work(**late)
        assert (kernel.flops, kernel.uncounted) == (1 + 3 * iterations, ())
        with sf.profile(work=True) as block:
            step(start)
        assert (block.result.flops, block.result.uncounted) == (kernel.flops, 0)
    # in several of the stretches between which the kernel looks whether the user wants to stop
    down = sf.compile([x], sf.while_loop(lambda a: a < 0, lambda a: a + 2.0**15, x))
    assert late_sizes_finder(down)(many) == {"iterations": 3 << 14}
    assert down(many).item() == 0


def test_each_launch_of_a_kernel_that_is_a_loop_is_counted() -> None:
    x = sf.placeholder((None,), name="x")

    def grow(z: sf.Symbol) -> sf.Symbol:
        return z + sf.while_loop(lambda a: a < 50, lambda a: a * 2 + 1, z.sum()) / 3

    step = sf.compile([x], sf.while_loop(lambda z: z.sum() < 300, grow, x))
    late = late_sizes_finder(step)(sf.ones(3))
    counts, total = [], 3.0
    while total < 300:
        steps, a = 0, total
        while a < 50:
            steps, a = steps + 1, a * 2 + 1
        counts, total = [*counts, steps], total + a
    assert sorted(late) == ["iterations", "iterations_2"]
    assert counts in late.values() and len(counts) in late.values()
    kernels = step.work(x_0=3, **late)
    assert not any(k.uncounted for k in kernels)
    (loop,) = (k for k in kernels if k.name.startswith("loop"))
    assert loop.launches == len(counts) and loop.flops >= 3 * sum(counts)


def test_a_loop_inside_of_a_kernel_that_is_a_loop_is_not_counted() -> None:
    x = sf.placeholder((), name="x")

    def outer(a: sf.Symbol) -> sf.Symbol:
        return a + sf.while_loop(lambda b: b < 10, lambda b: b * 2, a)

    step = sf.compile([x], sf.while_loop(lambda a: a < 100, outer, x))
    assert late_sizes_finder(step)(sf.ones(())) == {}
    assert step.work()[0].uncounted == ("iterations",)
