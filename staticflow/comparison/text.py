"""A record as text, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from staticflow.comparison.record import (
    Agreement,
    BreakEven,
    Comparison,
    Difference,
    Memory,
    ModeCosts,
)
from staticflow.measure.lines import lines_or_none
from staticflow.measure.units import (
    bytes_in_words,
    flops_in_words,
    ratio_in_words,
    seconds_in_words,
)
from staticflow.measure.work import COPY

__all__ = ["format_comparison"]

WIDTH = 80
NOT_MEASURED = "not measured"
LARGEST = 3
"""So many of the largest buffers are shown."""
KERNELS = 5
"""So many kernels are shown, those that take longest."""
PASSES = 3
"""So many passes are shown, those that take longest."""


def format_comparison(record: Comparison) -> str:
    """The record as a table of at most 80 columns."""
    sections = [
        _head(record),
        _agreement(record),
        _steps(record),
        _starts(record),
        _memory(record),
        _kernels(record),
        _ablation(record),
        _sweep(record),
        _peers(record),
        _scaling(record),
        _foot(record),
    ]
    lines: list[str] = []
    for section in sections:
        found = [piece for line in section for piece in _wrap(line)]
        lines += ([""] if lines and found else []) + found
    return "\n".join(lines)


def _wrap(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, drop_whitespace=True, replace_whitespace=False
    )


def _row(what: str, eager: str = "", static: str = "", remark: str = "") -> str:
    return f"{what:<26}{eager:>14}{static:>14}  {remark}".rstrip()


def _head(record: Comparison) -> Iterator[str]:
    model, here = record.model, record.machine
    yield f"{model.name} ({model.source}), {model.parameters:,} parameters, {model.dtype}"
    yield ", ".join(model.inputs)
    yield (
        f"loss {model.loss}, optimiser {model.optimizer}, {model.steps:,} steps, seed {model.seed}"
    )
    threads = f"{here.threads} thread" + "s" * (here.threads != 1)
    yield f"{here.processor}, {threads}, staticflow {here.versions.get('staticflow', '')}"
    if record.unfinished is not None:
        yield f"INTERRUPTED in {record.unfinished}: what follows was found until then"


# -- agreement -------------------------------------------------------------------------------------


def _agreement(record: Comparison) -> Iterator[str]:
    if record.refused is not None:
        yield "NO GRAPH: this model runs eagerly only"
        yield f"  {record.refused}"
        return
    found = record.agreement
    if found is None:
        yield f"AGREEMENT: {NOT_MEASURED}"
        return
    yield f"{'AGREEMENT' if found.agree else 'FAILED'}: {found.verdict}"
    yield from (f"  on purpose: {told}" for told in found.on_purpose)
    heads = f"{'static-eager':>14}{'static-f64':>12}{'eager-f64':>12}{'limit':>10}"
    yield f"{'  largest difference of':<26}{heads}"
    for name, difference in _parts(found):
        yield _difference(name, difference)
    yield f"  gradient against finite differences: {found.gradcheck}"
    yield f"  same bits once more: {_yes_no(found.deterministic)}"
    yield f"  same bits on one thread: {_yes_no(found.same_on_threads)}"


def _parts(found: Agreement) -> list[tuple[str, Difference]]:
    return [
        ("values", found.values),
        ("gradients", found.gradients),
        ("state after a step", found.state),
        ("losses", found.losses),
    ]


def _difference(name: str, found: Difference) -> str:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.1e}"

    line = (
        f"    {name:<22}{number(found.static_eager):>14}{number(found.static_float64):>12}"
        f"{number(found.eager_float64):>12}{found.limit:>10.0e}"
    )
    return line + (f"  NaN: {', '.join(found.has_nan)}" if found.has_nan else "")


def _yes_no(by_mode: Mapping[str, bool]) -> str:
    return ", ".join(f"{mode} {'yes' if same else 'NO'}" for mode, same in by_mode.items())


# -- costs -----------------------------------------------------------------------------------------


def _steps(record: Comparison) -> Iterator[str]:
    eager, static = record.eager, record.static
    yield _row("STEADY STEP", "eager", "static")
    yield _row("  median", _median(eager), _median(static), _faster(eager, static))
    yield _row("  95 % interval, low", _end(eager, "low"), _end(static, "low"))
    yield _row("  95 % interval, high", _end(eager, "high"), _end(static, "high"))
    if eager.losses:
        yield _row("  loss, first step", _loss(eager, 0), _loss(static, 0))
        yield _row("  loss, last step", _loss(eager, -1), _loss(static, -1))
    for name in eager.scores:
        yield _row(f"  {name}", *(_score(mode, name) for mode in (eager, static)))
    fractions = [_roofline(mode, "fraction") for mode in (eager, static)]
    if any(fractions):
        yield _row("  of the machine's limits", *fractions)
    shares = [_roofline(mode, "outside_kernels") for mode in (eager, static)]
    if any(shares):
        yield _row("  outside kernels", *shares)
    for what in ("kernels", "launches", "bytes", "flops"):
        counts = [_count(mode, what) for mode in (eager, static)]
        if any(counts):
            yield _row(f"  {what}", *counts)


def _median(mode: ModeCosts | None) -> str:
    if mode is None:
        return "-"
    return NOT_MEASURED if mode.step is None else seconds_in_words(mode.step.median)


def _end(mode: ModeCosts | None, end: str) -> str:
    return "-" if mode is None or mode.step is None else seconds_in_words(getattr(mode.step, end))


def _loss(mode: ModeCosts | None, which: int) -> str:
    return f"{mode.losses[which]:.6f}" if mode is not None and mode.losses else "-"


def _score(mode: ModeCosts | None, name: str) -> str:
    return f"{mode.scores[name]:.6g}" if mode is not None and name in mode.scores else "-"


def _faster(eager: ModeCosts, static: ModeCosts | None) -> str:
    """How much faster which mode is; nothing of fewer steps than say something."""
    if static is None or eager.step is None or static.step is None:
        return ""
    if min(eager.step.count, static.step.count) < 5:
        return "too few steps to compare"
    if not (eager.step.low > static.step.high or static.step.low > eager.step.high):
        return "no difference beyond noise"
    ratio = eager.step.median / static.step.median
    if ratio >= 1:
        return f"static {ratio_in_words(ratio)} faster"
    return f"eager {ratio_in_words(1 / ratio)} faster"


def _roofline(mode: ModeCosts | None, what: str) -> str:
    value = None if mode is None or mode.roofline is None else getattr(mode.roofline, what)
    return "" if value is None else f"{value:.1%}"


def _count(mode: ModeCosts | None, what: str) -> str:
    if mode is None or mode.roofline is None:
        return ""
    value = getattr(mode.roofline, what)
    words = {"bytes": bytes_in_words, "flops": flops_in_words}
    return words[what](value) if what in words else f"{value:,}"


def _starts(record: Comparison) -> Iterator[str]:
    named = {"cold": "COLD START, EMPTY CACHE", "warm": "WARM START, CODE ON DISK"}
    modes = (record.eager, record.static)
    for start, title in named.items():
        phases = [dict(getattr(m, start)) if m is not None else {} for m in modes]
        if not any(phases):
            continue
        yield _row(title, "eager", "static")
        for phase in dict.fromkeys([*phases[1], *phases[0]]):
            yield _row(f"  {phase.replace('_', ' ')}", *(_seconds(p, phase) for p in phases))
            if (start, phase) == ("cold", "optimise") and record.static and record.static.passes:
                longest = sorted(record.static.passes.items(), key=lambda p: -p[1])[:PASSES]
                told = ", ".join(f"{name} {seconds_in_words(s)}" for name, s in longest)
                yield f"    most of it: {told}"
        yield _row("  in all", *(_total(p) for p in phases))
        if start in record.break_even:
            yield f"  break-even: {_crossing(record.break_even[start])}"
    if not any(getattr(m, s) for m in modes if m is not None for s in named):
        yield f"FRESH PROCESSES: {NOT_MEASURED}"


def _seconds(phases: Mapping[str, float], phase: str) -> str:
    return seconds_in_words(phases[phase]) if phase in phases else "-"


def _total(phases: Mapping[str, float]) -> str:
    return seconds_in_words(sum(phases.values())) if phases else "-"


def _crossing(found: BreakEven) -> str:
    if found.step is None:
        low = "" if found.low is None else f", though perhaps step {found.low:,}"
        return f"never: eager stays ahead{low}"
    high = "never" if found.high is None else f"{found.high:,}"
    return f"from step {found.step:,} on static has taken less time (95 %: {found.low:,} to {high})"


# -- memory, kernels, why --------------------------------------------------------------------------


def _memory(record: Comparison) -> Iterator[str]:
    eager, static = record.memory.get("eager"), record.memory.get("static")
    if eager is None and static is None:
        yield f"MEMORY: {NOT_MEASURED}"
    else:
        yield _row("MEMORY OF A STEP", "eager", "static")
        yield _row("  peak, planned", *(_bytes(m, "predicted") for m in (eager, static)))
        yield _row("  peak, measured", *(_bytes(m, "measured") for m in (eager, static)))
        for mode, found in record.memory.items():
            for buffer in found.largest[:LARGEST]:
                size = bytes_in_words(buffer.bytes)
                yield (
                    f"  {mode}: {size} {buffer.label}, {buffer.type}, "
                    f"{_short(lines_or_none(buffer.lines))}"
                )
    for mode, counts in record.compilations.items():
        told = ", ".join(f"{name}: {count}" for name, count in counts.items())
        yield f"  compilations so far, {mode}: {told}"


def _bytes(memory: Memory | None, what: str) -> str:
    value = None if memory is None else getattr(memory, what)
    return "-" if value is None else bytes_in_words(value)


def _short(lines: str) -> str:
    """The first of some lines, without the folders."""
    first, *others = lines.split(", ")
    return first.rsplit("/", 1)[-1] + (f" and {len(others)} more" if others else "")


def _kernels(record: Comparison) -> Iterator[str]:
    if not record.kernels:
        return
    is_timed = any(k.seconds for k in record.kernels)
    shown = sorted(record.kernels, key=lambda k: -((k.seconds or 0.0) if is_timed else k.bytes))
    which = "take longest" if is_timed else "move most bytes"
    count = sum(k.name != COPY for k in record.kernels)
    yield f"KERNELS OF THE COMPILED STEP: {count}" + (
        f", the {KERNELS} that {which}" if count > KERNELS else ""
    )
    for kernel in shown[:KERNELS]:
        seconds = "-" if kernel.seconds is None else seconds_in_words(kernel.seconds)
        size, flops = bytes_in_words(kernel.bytes), flops_in_words(kernel.flops)
        lines = _short(lines_or_none(kernel.lines))
        yield f"  {kernel.name:<18}{seconds:>10}{size:>12}{flops:>13}  {lines}"


def _ablation(record: Comparison) -> Iterator[str]:
    if not record.ablation:
        return
    yield f"{'WITHOUT A PASS':<26}{'time':>14}{'peak':>14}{'kernels':>10}  result"
    for each in record.ablation:
        same = "same" if each.agrees else "DIFFERS"
        yield (
            f"  {each.without:<24}{ratio_in_words(each.ratio):>14}"
            f"{bytes_in_words(each.peak):>14}{each.kernels:>10}  {same}"
        )
    if record.no_effect:
        yield f"  the graph is the same without {', '.join(record.no_effect)}"


def _sweep(record: Comparison) -> Iterator[str]:
    if record.sweep is None:
        return
    yield _row("SWEEP", "eager", "static")
    for point in record.sweep.points:
        sizes = ", ".join(f"{n}={v}" for n, v in point.sizes.items())
        first = "static" if point.static < point.eager else "eager"
        times = seconds_in_words(point.eager), seconds_in_words(point.static)
        yield _row(f"  {sizes}", *times, f"{first} first")
    if record.sweep.fit is not None:
        told = ", ".join(f"{m} {e:.0%}" for m, e in record.sweep.fit.error.items())
        yield f"  a fit of overhead and work is off by (median): {told}"


def _peers(record: Comparison) -> Iterator[str]:
    if not record.peers:
        return
    ours = "eager" if record.static is None else "static"
    yield f"{'PEERS':<26}{'step':>14}{'first step':>14}{f'to {ours}':>14}  difference"
    for peer in record.peers:
        ratio = NOT_MEASURED if peer.ratio is None else ratio_in_words(peer.ratio.median)
        yield (
            f"  {f'{peer.name} {peer.version}':<24}{seconds_in_words(peer.step.median):>14}"
            f"{seconds_in_words(peer.first_step):>14}{ratio:>14}  {peer.difference:.1e}"
        )


def _scaling(record: Comparison) -> Iterator[str]:
    if not record.scaling:
        return
    heads = f"{'step':>11}{'speedup':>10}{'efficiency':>12}{'sent':>12}  difference"
    yield f"{'PROCESSES OF 1 THREAD':<22}{heads}"
    for each in record.scaling:
        apart = "-" if each.difference is None else f"{each.difference:.1e}"
        yield (
            f"  {each.processes:<20}{seconds_in_words(each.step.median):>11}"
            f"{ratio_in_words(each.speedup):>10}{each.efficiency:>12.0%}"
            f"{bytes_in_words(each.bytes):>12}  {apart}"
        )


def _foot(record: Comparison) -> Sequence[str]:
    return [f"Note: {note}" for note in record.notes]
