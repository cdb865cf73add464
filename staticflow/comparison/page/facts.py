"""The tables of a page: agreement, rooflines, kernels by source line, compilations, machine."""

from __future__ import annotations

from collections.abc import Iterator

from staticflow.comparison.page.findings import difference_words, interval
from staticflow.comparison.page.markup import Content, Html, tag
from staticflow.comparison.page.tables import Cell, Column, numbers, table
from staticflow.comparison.record import (
    Agreement,
    Comparison,
    Difference,
    Kernel,
    Machine,
    ModeCosts,
    Peer,
    Scaling,
    Spread,
)
from staticflow.measure.lines import lines_or_none
from staticflow.measure.units import (
    bytes_in_words,
    digits,
    flops_in_words,
    ratio_in_words,
    seconds_in_words,
)

__all__ = [
    "agreement_table",
    "compilation_table",
    "kernel_table",
    "machine_list",
    "pass_table",
    "peer_table",
    "roofline_table",
    "scaling_table",
    "score_table",
]


def agreement_table(agreement: Agreement) -> Html:
    """The largest differences of each kind of number."""
    kinds = {
        "values": agreement.values,
        "gradients": agreement.gradients,
        "updated state": agreement.state,
        "losses": agreement.losses,
    }
    columns = (
        "Of", Column("Static to eager", number=True), Column("Allowed", number=True),
        Column("Static to float64", number=True), Column("Eager to float64", number=True),
        "Furthest apart", "NaN in",
    )  # fmt: skip
    rows = [difference_row(name, d) for name, d in kinds.items()]
    return table("Largest relative differences", columns, rows)


def difference_row(name: str, of: Difference) -> list[Content]:
    """The cells of one kind of number."""
    return [
        name,
        difference_words(of.static_eager),
        difference_words(of.limit),
        difference_words(of.static_float64),
        difference_words(of.eager_float64),
        tag("code", of.where),
        ", ".join(of.has_nan) or "none",
    ]


def roofline_table(modes: dict[str, ModeCosts]) -> Html | None:
    """What a step of each mode does, and how near it is to the machine's limits."""
    known = {mode: costs.roofline for mode, costs in modes.items() if costs.roofline}
    if not known:
        return None
    rows = [
        ("Kernels", *(f"{r.kernels:,}" for r in known.values())),
        ("Launches", *(f"{r.launches:,}" for r in known.values())),
        ("Bytes read and written", *(bytes_in_words(r.bytes) for r in known.values())),
        ("Floating-point operations", *(flops_in_words(r.flops) for r in known.values())),
        ("Of the machine's roofline", *(percent(r.fraction) for r in known.values())),
        ("Time outside kernels", *(percent(r.outside_kernels) for r in known.values())),
    ]
    columns = ["A step", *numbers(mode.capitalize() for mode in known)]
    return table("What a step does", columns, rows)


def score_table(modes: dict[str, ModeCosts]) -> Html | None:
    """What the trained models are worth by the file's own measure."""
    names = dict.fromkeys(name for costs in modes.values() for name in costs.scores)
    if not names:
        return None
    rows = [
        (name, *(f"{c.scores[name]:.6g}" if name in c.scores else "–" for c in modes.values()))
        for name in names
    ]
    columns = ["Of the trained model", *numbers(mode.capitalize() for mode in modes)]
    return table("Evaluated after training", columns, rows)


def percent(share: float | None) -> str:
    """A share, where it is known.

    >>> percent(0.1234), percent(None)
    ('12.3 %', 'not measured')
    """
    return "not measured" if share is None else f"{100 * share:.1f} %"


def kernel_table(kernels: tuple[Kernel, ...]) -> Html | None:
    """All kernels, the most expensive first, with the user's lines that they come from."""
    if not kernels:
        return None
    timed = [k.seconds for k in kernels if k.seconds is not None]
    order = sorted(kernels, key=lambda k: (-(k.seconds or 0), -k.bytes))
    columns = (
        "Source", Column("Time", number=True), Column("Share", number=True), "Kernel",
        Column("Launches", number=True), Column("Bytes", number=True), Column("FLOPs", number=True),
    )  # fmt: skip
    rows = [list(kernel_row(k, sum(timed))) for k in order]
    return table("Kernels by source line", columns, rows, sort=True, tall=True)


def kernel_row(kernel: Kernel, all_seconds: float) -> Iterator[Cell]:
    """The cells of one kernel, in a step whose kernels take so many seconds."""
    seconds = kernel.seconds
    share = None if seconds is None or not all_seconds else seconds / all_seconds
    yield Cell(tag("code", lines_or_none(kernel.lines)), kernel.lines)
    yield Cell("–" if seconds is None else seconds_in_words(seconds), seconds)
    yield Cell("–" if share is None else f"{100 * share:.1f} %", share, share)
    once = f" (where {', '.join(kernel.uncounted)} is 1)" if kernel.uncounted else None
    yield Cell([tag("code", kernel.name), once], kernel.name)
    yield Cell(f"{kernel.launches:,}", kernel.launches)
    yield Cell(bytes_in_words(kernel.bytes), kernel.bytes)
    yield Cell(flops_in_words(kernel.flops), kernel.flops)


def pass_table(costs: ModeCosts | None) -> Html | None:
    """The seconds of each pass of the optimiser."""
    if costs is None or not costs.passes:
        return None
    most = max(costs.passes.values()) or 1
    rows = [
        (Cell(name, name), Cell(seconds_in_words(s), s, s / most))
        for name, s in sorted(costs.passes.items(), key=lambda p: -p[1])
    ]
    return table("Passes of the optimiser", ("Pass", Column("Time", number=True)), rows, sort=True)


def peer_table(peers: tuple[Peer, ...]) -> Html | None:
    """Each peer: the model under another library."""
    if not peers:
        return None
    heads = [*numbers(["Version", "Step"]), "95 % interval"]
    heads += numbers(["Against own", "First step", "Difference"])
    rows = [
        (p.name, p.version, seconds_in_words(p.step.median), interval(p.step), against(p.ratio),
         seconds_in_words(p.first_step), difference_words(p.difference))
        for p in peers
    ]  # fmt: skip
    return table("The same model elsewhere", ["Library", *heads], rows)


def scaling_table(scaling: tuple[Scaling, ...]) -> Html | None:
    """The compiled step on several processes."""
    if not scaling:
        return None
    heads = numbers(
        ["Step", "95 % interval", "Speedup", "Efficiency", "Sent by each", "Difference"]
    )
    rows = [
        (str(s.processes), seconds_in_words(s.step.median), interval(s.step),
         ratio_in_words(s.speedup), f"{100 * s.efficiency:.0f} %", bytes_in_words(s.bytes),
         "–" if s.difference is None else difference_words(s.difference))
        for s in scaling
    ]  # fmt: skip
    return table("The compiled step on processes of one thread", ["Processes", *heads], rows)


def against(ratio: Spread | None) -> str:
    """A peer's time over that of the static mode, or of the eager one if there is no graph."""
    if ratio is None:
        return "–"
    return f"{ratio_in_words(ratio.median)} ({digits(ratio.low)} to {digits(ratio.high)})"


def compilation_table(compilations: dict[str, dict[str, int]]) -> Html | None:
    """How many compilations each mode has needed after each of the sizes."""
    sizes = list(dict.fromkeys(size for counts in compilations.values() for size in counts))
    if not sizes:
        return None
    columns = ["After", *numbers(mode.capitalize() for mode in compilations)]
    rows = [(s, *(f"{c[s]:,}" if s in c else "–" for c in compilations.values())) for s in sizes]
    return table("Compilations so far", columns, rows)


def machine_list(comparison: Comparison) -> Html:
    """The model's and the machine's particulars."""
    model, machine = comparison.model, comparison.machine
    return definitions(
        {
            "Model": f"{model.name}, {model.parameters:,} parameters of {model.dtype}",
            "Source": model.source,
            "Inputs": "; ".join(model.inputs) or "none",
            "Loss": model.loss,
            "Optimiser": model.optimizer,
            "Steps": f"{model.steps:,}, seed {model.seed}",
            "Processor": machine.processor,
            "Threads": f"{machine.threads:,}",
            "System": machine.system,
            "Rates reached": rates(machine),
            "Versions": ", ".join(map(" ".join, machine.versions.items())),
        }
    )


def rates(machine: Machine) -> str:
    """The largest rates of arithmetic and of memory that the machine reached."""
    flops, moved = machine.flops_per_second, machine.bytes_per_second
    known = [] if flops is None else [f"{flops_in_words(flops)}/s"]
    known += [] if moved is None else [f"{bytes_in_words(moved)}/s"]
    return ", ".join(known) or "not measured"


def definitions(pairs: dict[str, str]) -> Html:
    """A list of names and what they are."""
    items = [tag("div", tag("dt", name), tag("dd", words)) for name, words in pairs.items()]
    return tag("dl", items, class_="list")
