"""The loops of a kernel in LLVM text: in order, or as a function whose iterations threads share.

A loop is bottom-tested, and entered only if it runs at all. What its body sets is a phi at its
head. One that takes long asks on its way whether the user wants to stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from staticflow.codegen.kernel import ENDLESS, Bind, Call, Loop, Stmt
from staticflow.codegen.llvm.index import Induction
from staticflow.codegen.llvm.parallel import (
    MANY_WORKERS,
    Field,
    is_worth_sharing,
    load_fields,
    may_be_much,
    store_fields,
    uses_of,
)
from staticflow.codegen.llvm.text import I64, BasicBlock, FunctionText, local, phi
from staticflow.codegen.llvm.values import Value, value_phi
from staticflow.codegen.parts import loops_in, walk
from staticflow.codegen.schedule.loops import iteration_count, thread_bound
from staticflow.codegen.schedule.runs import is_run
from staticflow.codegen.statuses import INTERRUPTED
from staticflow.codegen.work import work_of
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, dim_max, is_provably_ge
from staticflow.graph.terms import terms_of

if TYPE_CHECKING:
    from staticflow.codegen.llvm.render import KernelWriter

__all__ = ["write_loop"]

_BETWEEN_LOOKS = (1 << 20) - 1
"""The work of a loop from one look to the next, about: a tenth of a millisecond, against some tens
of nanoseconds for a look."""

_FEW = 64
"""Iterations of a loop of loops that looks after each."""

_SOME = 6
"""Statements of a loop of which it costs nothing to count the iterations."""

_ENOUGH = 64
"""Iterations that threads share well, however many there are."""


def write_loop(writer: KernelWriter, stmt: Loop) -> None:
    """Write a loop of any kind."""
    if is_worth_sharing(stmt, writer.kernel.sizes, writer.inside):
        _spread(writer, stmt)
    else:
        around = writer.worker
        writer.worker = "0"
        _write_in_order(writer, stmt)
        writer.worker = around


def _spread(writer: KernelWriter, stmt: Loop) -> None:
    """Write a parallel loop as a call of a function of its own, a part, which goes to ``parts``.

    Of parallel loops that are each all of the body of the one around it, threads share one, which
    is chosen as the program runs; the part runs the others in order.
    """
    text, value = writer.text, writer.indices.value
    writer.shared += 1
    nest = _nest_of(writer, stmt)
    uses = uses_of(stmt.body, stmt.var)
    buffers = [Field("ptr", name := local(f"b.{b}"), name) for b in uses.buffers]
    symbols = [
        Field("i64", value(Dim.of(s)), local(f"s{i}.{s}")) for i, s in enumerate(uses.symbols)
    ]
    wide = [r for r in uses.registers if r in writer.splats]
    kept = {r: writer.splats[r][0] if r in wide else writer.registers[r] for r in uses.registers}
    registers = [Field(str(v.type), v.name, local(f"r.{r}")) for r, v in kept.items()]
    named = {"%lo": stmt.lo, "%hi": stmt.hi}
    known = {n: size for n, size in named.items() if _is_plain(size, uses.symbols)}
    ends = [Field("i64", value(size), n) for n, size in named.items() if n not in known]
    levels = _levels(nest)
    count, level = _choose_level(writer, levels)
    ends += [Field("i64", level, "%level")] if len(levels) > 1 else []
    struct = [*buffers, *symbols, *registers, *ends]

    part = writer.part({s: field.name for s, field in zip(uses.symbols, symbols, strict=True)})
    part.worker = "%worker"
    load_fields(part.text, "%struct", struct)
    for (r, v), field in zip(kept.items(), registers, strict=True):
        loaded = Value(field.name, v.dtype, v.lanes)
        if r in wide:
            part.splats[r] = loaded, writer.splats[r][1]
        else:
            part.registers[r] = loaded
    lo, hi = (part.indices.value(known[n]) if n in known else n for n in named)
    _write_in_order(part, _with_share(part, nest, lo, hi, [i for i, _ in levels]))
    name = f"{writer.kernel.name}.{len(writer.parts)}"
    parameters = ["ptr %struct", "i64 %first", "i64 %last", "i64 %worker"]
    writer.parts.append(part.function(name, parameters))

    given = f"ptr @{name}, ptr {store_fields(text, struct)}"
    work = work_of(stmt, writer.indices.name)
    most = thread_bound(stmt)
    threads = MANY_WORKERS if most is None else most
    amounts = f"i64 {count}, i64 {value(work)}, i64 {value(threads)}"
    code = text.op(f"call i32 @parallel({given}, {amounts})")
    if stmt is writer.kernel.body[-1]:
        writer.result = code
    else:
        writer.return_unless(text.op(f"icmp eq i32 {code}, 0"), code)


def _is_plain(size: Size, symbols: Sequence[Sym]) -> bool:
    """Whether a part, which has the values of these symbols, computes a size as soon as it would
    load it."""
    return all(isinstance(a, Sym) and a in symbols for m, _ in terms_of(size) for a in m)


def _nest_of(writer: KernelWriter, stmt: Loop) -> list[Loop]:
    """The loop and those in it that threads could share in its place: each is all of the body of
    the one around it, and has the same iterations in each of that one's."""
    nest = [stmt]
    while thread_bound(nest[-1]) is None and len(nest[-1].body) == 1:
        (inner,) = nest[-1].body
        if not isinstance(inner, Loop) or thread_bound(inner) is not None:
            break
        varying = {loop.var for loop in nest} & (symbols_of(inner.lo) | symbols_of(inner.hi))
        if varying or not is_worth_sharing(inner, writer.kernel.sizes, True):
            break
        nest.append(inner)
    return nest


def _choose_level(writer: KernelWriter, levels: Sequence[tuple[int, Size]]) -> tuple[str, str]:
    """The number of iterations that threads share, and the number of their loop in the nest: the
    outermost one of the ``levels``, unless it has few iterations and another has more."""
    text, value = writer.text, writer.indices.value
    (level, count), *others = levels
    best, most = str(level), value(count)
    for i, size in others:
        own = value(size)
        few = text.op(f"icmp slt i64 {most}, {_ENOUGH}")
        better = text.op(f"and i1 {few}, {text.op(f'icmp sgt i64 {own}, {most}')}")
        most = text.op(f"select i1 {better}, i64 {own}, i64 {most}")
        best = text.op(f"select i1 {better}, i64 {i}, i64 {best}")
    return most, best


def _levels(nest: Sequence[Loop]) -> list[tuple[int, Size]]:
    """The numbers of the loops that threads may share, and of their iterations: those with few
    iterations, as far as is known, only where all are such."""
    counts = [*enumerate(map(iteration_count, nest))]
    many = [(i, n) for i, n in counts if not isinstance(n, int) or n >= _ENOUGH]
    return many or counts


def _with_share(
    part: KernelWriter, nest: Sequence[Loop], first: str, end: str, levels: Sequence[int]
) -> Loop:
    """The nest, which goes from ``first`` to ``end``, as a part runs it: of one of its loops, whose
    numbers are ``levels``, the iterations ``%first`` to ``%last``."""
    text, loops = part.text, list(nest)
    for i, loop in enumerate(nest):
        lo = first if i == 0 else part.indices.value(loop.lo)
        hi = end if i == 0 else part.indices.value(loop.hi)
        ends = lo, hi
        if i in levels:
            ends = _share_of(text, loop.step, lo, hi)
        if i in levels and len(levels) > 1:
            own = text.op(f"icmp eq i64 %level, {i}")
            ends = (
                text.op(f"select i1 {own}, i64 {ends[0]}, i64 {lo}"),
                text.op(f"select i1 {own}, i64 {ends[1]}, i64 {hi}"),
            )
        at = [Sym(name, -1 - i) for name in ("from", "to")]
        for symbol, name in zip(at, ends, strict=True):
            part.indices.define(symbol, name)
        loops[i] = replace(loop, lo=Dim.of(at[0]), hi=Dim.of(at[1]), kind="serial")
    inner = loops.pop()
    while loops:
        inner = replace(loops.pop(), body=(inner,))
    return inner


def _share_of(text: FunctionText, step: int, lo: str, hi: str) -> tuple[str, str]:
    """Where the iterations ``%first`` to ``%last`` of a loop from ``lo`` to ``hi`` begin and
    end."""
    ends = ["%first", "%last"]
    if step != 1:
        ends = [text.op(f"mul i64 {end}, {step}") for end in ends]
    if lo != "0":
        ends = [text.op(f"add i64 {lo}, {end}") for end in ends]
    start, far = ends
    return start, far if step == 1 else text.call("smin.i64", I64, (I64, far), (I64, hi))


def _write_in_order(writer: KernelWriter, stmt: Loop) -> None:
    """Write a loop bottom-tested, entered only if it runs at all; what the body sets is a phi at
    its head, and one behind the loop where that can be reached both ways."""
    text = writer.text
    shared = writer.shared
    lo, hi = writer.indices.value(stmt.lo), writer.indices.value(stmt.hi)
    between = _iterations_between_looks(writer, stmt)
    before, head, done = text.block, text.new_block("loop"), text.new_block("done")
    always = stmt.going is None and is_provably_ge(stmt.hi, stmt.lo + 1)
    if always:
        text.jump(head)
    else:
        text.branch(_again(writer, stmt, lo, hi), head, done)
    entry = writer.values_to_set(stmt.body)
    text.start(head)
    variable = text.fresh(stmt.var.name)
    carried = {name: Value(text.fresh(name), v.dtype, v.lanes) for name, v in entry.items()}
    is_innermost = next(loops_in(stmt.body), None) is None
    induction = Induction(stmt.var, stmt.lo, stmt.step) if is_innermost else None
    with writer.indices.scope(before, induction=induction):
        writer.indices.define(stmt.var, variable)
        last = writer.write_nested(stmt.body, carried)
    writer.has_loops |= writer.shared == shared and not _is_little(stmt)
    latch = text.block
    multiples = [] if induction is None else induction.multiples
    sums = [text.op(f"add i64 {name}, {more}") for name, _, more in multiples]
    following = text.op(f"add nuw nsw i64 {variable}, {stmt.step}", stmt.var.name)
    again = _again(writer, stmt, following, hi)
    backs = [latch]
    if stmt.kind == "long" or between is not None:
        backs = [text.new_block("on")]
        text.branch(again, backs[0], done)
        text.start(backs[0])
        if between is not None:
            rest = text.op(f"and i64 {following}, {between}")
            backs.append(text.new_block("look"))
            text.branch(text.op(f"icmp ult i64 {rest}, {stmt.step}"), backs[1], head)
            text.start(backs[1])
        _go_on(writer, head, "@stopping()" if between else "@look(ptr %call)")
    else:
        text.branch(again, head, done)
    starts = [(following, back) for back in backs]
    head.phis.append(phi(variable, I64, [(lo, before), *starts]))
    for (name, first, _), total in zip(multiples, sums, strict=True):
        head.phis.append(phi(name, I64, [(first, before), *((total, back) for back in backs)]))
    for name, value in carried.items():
        ends = [(last[name], back) for back in backs]
        head.phis.append(value_phi(value, [(entry[name], before), *ends]))
    text.start(done)
    writer.registers.update(last if always else writer.merge(done, (entry, before), (last, latch)))
    if stmt is writer.counted:  # whose variable goes on from stretch to stretch
        count = text.fresh("count")
        done.phis.append(phi(count, I64, [(lo, before), (following, latch)]))
        text.do(f"store i64 {count}, ptr @counted")


def _is_little(loop: Loop) -> bool:
    """Whether a loop has few iterations of few statements at all sizes."""
    has_loops = any(isinstance(s, Loop) for s in loop.body)
    return len(loop.body) <= _SOME and not has_loops and is_provably_ge(_FEW, loop.hi - loop.lo)


def _go_on(writer: KernelWriter, head: BasicBlock, look: str) -> None:
    """Go back to ``head`` unless the user wants to stop."""
    text = writer.text
    stopped = text.new_block("stopped")
    text.branch(text.op(f"call i1 {look}"), stopped, head)
    text.start(stopped)
    stopped.end = f"ret i32 {INTERRUPTED}"


def _iterations_between_looks(writer: KernelWriter, stmt: Loop) -> str | None:
    """A mask of the variable of a loop that runs in order and may take long: where it finds no
    bit, the loop looks whether the user wants to stop. None of other loops."""
    if writer.inside or stmt.kind != "serial" or not _may_take_long(stmt, writer.kernel.sizes):
        return None
    if is_provably_ge(_FEW, stmt.hi - stmt.lo):
        return "0"
    text, value = writer.text, writer.indices.value
    work = value(work_of(stmt, writer.indices.name) // dim_max(stmt.hi - stmt.lo, 1))
    zeros = text.call("ctlz.i64", I64, (I64, text.op(f"or i64 {work}, 1")), ("i1", "true"))
    return text.op(f"lshr i64 {_BETWEEN_LOOKS}, {text.op(f'sub i64 63, {zeros}')}")


def _again(writer: KernelWriter, stmt: Loop, at: str, hi: str) -> str:
    """Whether there is an iteration where the loop's variable is ``at``."""
    going = None if stmt.going is None else writer.operand(stmt.going).name
    if going is not None and stmt.hi == ENDLESS:
        return going
    below = writer.text.op(f"icmp slt i64 {at}, {hi}")
    return below if going is None else writer.text.op(f"and i1 {going}, {below}")


def _looks_itself(stmt: Stmt) -> bool:
    """Whether a statement asks on its way whether the user wants to stop, should it take long."""
    if isinstance(stmt, Call):
        return is_run(stmt.kernel.name)
    return isinstance(stmt, Loop) and stmt.kind != "serial"


def _may_take_long(loop: Loop, sizes: Sequence[Sym]) -> bool:
    """Whether a loop, of which threads share nothing, may be more work at some ``sizes`` of the
    kernel than there is from one look to the next, in iterations that are some work each."""
    body = list(walk(loop.body))
    if len(body) < _SOME or any(map(_looks_itself, body)):
        return False
    has_unknown = any(isinstance(s, Bind) and s.sym.upper is None for s in body)
    return has_unknown or may_be_much(loop, sizes, _BETWEEN_LOOKS)
