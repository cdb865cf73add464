"""What a profile finds, as data, and as a table of one screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.locs import Locs
from staticflow.measure.statistics import Spread
from staticflow.measure.units import bytes_in_words, flops_in_words, seconds_in_words

__all__ = ["Profile", "Row", "Span", "group", "short_lines"]

WIDTH = 80
ROWS, LINES = 10, 6
"""How many rows of the table are by name, and how many by line."""


@dataclass(frozen=True, slots=True)
class Row:
    """What ran under one name, or for one line: how often, for how many ``seconds`` in all, which
    ``share`` of the whole, how many bytes it allocated (None: not known), and the user's lines.
    ``kind`` is ``"kernel"``, ``"copy"``, ``"question"``, ``"sizes"`` or ``"memory"`` of what runs
    in a compiled program, and ``"forward"``, ``"backward"``, ``"update"`` or ``"program"``, a call
    of one, of the operations of the eager mode.

    ``program`` is that in which it ran, in a block.

    Where work was counted, ``moved`` are the bytes that are read and written at least, and
    ``flops`` the floating-point operations; None where they are not known of all."""

    name: str
    kind: str
    count: int
    seconds: float
    share: float
    bytes: int | None
    lines: str
    moved: int | None = None
    flops: int | None = None
    program: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that began and ended, in seconds of `time.perf_counter`, on the thread that
    ``threads`` of the profile names by this number. ``details`` are words and numbers about it."""

    name: str
    kind: str
    thread: int
    start: float
    end: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a call, or of a block, goes.

    ``seconds`` is the whole: the mean of the faster half of ``calls`` calls (what else the machine
    does is in the other), or the block. ``rows`` are by kernel or
    operation, ``lines`` by source line, each the largest first; either adds up, with ``outside``,
    to the whole. ``overhead`` is how much longer profiling makes it, as a ratio: measured in turns
    with calls that are not profiled, which take ``unprofiled`` seconds, or, of a block, by what
    writing operations down and reading the clock in programs has taken, and by what being called
    through Python costs operations, which is measured on small ones as the block ends. The seconds
    of ``preparing`` are not in this: to compile the programs of a block with a clock, which is done
    when each is first called there and is no part of the whole.

    ``spans`` are of one call, or of the block; at most so many are kept, and ``dropped`` were not.
    ``memory`` has bytes in use by time. Where work was counted, ``uncounted`` is of how many
    operations it is not known; else it is None.
    """

    mode: str
    what: str
    seconds: float
    calls: int
    rows: tuple[Row, ...]
    lines: tuple[Row, ...]
    outside: Mapping[str, float]
    overhead: Spread
    unprofiled: float | None
    spans: tuple[Span, ...]
    dropped: int
    threads: Mapping[int, str]
    memory: tuple[tuple[float, int], ...]
    uncounted: int | None = None
    preparing: float = 0.0

    @property
    def operations(self) -> tuple[Row, ...]:
        """The rows of a block that are operations, and not what ran inside of programs."""
        return tuple(row for row in self.rows if row.kind in OPERATIONS)

    @property
    def flops(self) -> int | None:
        """The floating-point operations that are known; None if no work was counted."""
        return None if self.uncounted is None else sum(r.flops or 0 for r in self.rows)

    @property
    def traffic(self) -> int | None:
        """The bytes that are read and written at least, as far as they are known; None if no work
        was counted."""
        return None if self.uncounted is None else sum(r.moved or 0 for r in self.rows)

    def export(self, path: str | os.PathLike[str], *others: Profile) -> None:
        """Write the spans and the memory, with those of ``others`` on the same axis of time, as
        JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open. All begin at 0, unless some
        overlap in time.

        Raises `ProfileError` for a path that cannot be written.
        """
        from staticflow.measure.trace import write_trace

        write_trace(path, (self, *others))

    def table(self) -> str:
        """The largest rows, in 80 columns."""
        return "\n".join(_table(self))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<profile of {self.what}: {seconds_in_words(self.seconds)}{_about_calls(self)}>"


OPERATIONS = frozenset(("forward", "backward", "update", "program"))
"""The kinds of rows that are operations of the eager mode."""

_OWN_OF_CALLS = "a program's row is its calls without its kernels: arguments, outputs, loops"
_UNSEEN = "a program is one row: native code can read no clock on this processor"


def group(parts: Iterable[tuple[Any, Row]], whole: float) -> tuple[Row, ...]:
    """Rows with one key added up, as shares of the ``whole``, the largest first. Each has the name
    and kind of the first of them and the lines of all."""
    found: dict[Any, list[Row]] = {}
    for key, row in parts:
        found.setdefault(key, []).append(row)
    rows = [_add_up(rows, whole) for rows in found.values()]
    return tuple(sorted(rows, key=lambda r: -r.seconds))


def _add_up(rows: Sequence[Row], whole: float) -> Row:
    seconds = sum(r.seconds for r in rows)
    sizes = [r.bytes for r in rows if r.bytes is not None]
    lines = ", ".join(dict.fromkeys(line for r in rows for line in r.lines.split(", ") if line))
    return Row(
        rows[0].name, rows[0].kind, sum(r.count for r in rows), seconds,
        seconds / whole if whole else 0.0, sum(sizes) if sizes else None, lines,
        _sum_known([r.moved for r in rows]), _sum_known([r.flops for r in rows]), rows[0].program,
    )  # fmt: skip


def _sum_known(numbers: Sequence[int | None]) -> int | None:
    """The sum; None if one of them is not known."""
    known = [n for n in numbers if n is not None]
    return sum(known) if len(known) == len(numbers) else None


def short_lines(lines: str) -> str:
    """Lines as ``net.py:12,14``: the names of files alone, each once.

    >>> short_lines("/home/me/net.py:12, /home/me/net.py:14, /home/me/loss.py:3")
    'net.py:12,14 loss.py:3'
    """
    found: dict[str, list[str]] = {}
    for line in filter(None, lines.split(", ")):
        file, _, number = line.rpartition(":")
        found.setdefault(os.path.basename(file) or line, []).append(number)
    return " ".join(f"{file}:{','.join(numbers)}" for file, numbers in found.items())


def lines_of(locs: Locs) -> str:
    """The user's lines, each once."""
    return ", ".join(dict.fromkeys(map(str, locs)))


# -- the table -----------------------------------------------------------------------------------


Column = tuple[str, int, Callable[[Row], str]]
"""A heading, the width, and what stands in it of a row."""


def _columns(profile: Profile) -> list[Column]:
    """The columns between the calls and the names, for what is known."""
    found: list[Column] = []
    if any(r.bytes is not None for r in profile.rows):
        words = bytes_in_words
        found.append(("allocated", 10, lambda r: "" if r.bytes is None else words(r.bytes)))
    if profile.uncounted is not None:
        found.append(("FLOPs", 12, lambda r: "" if r.flops is None else flops_in_words(r.flops)))
    return found


def _table(profile: Profile) -> Iterable[str]:
    yield _fit(f"{profile.what}: {seconds_in_words(profile.seconds)}{_about_calls(profile)}")
    yield _fit(_overhead(profile))
    if profile.preparing:
        once = seconds_in_words(profile.preparing)
        yield f"compiling the programs with a clock took {once}, once; it is no part of this"
    if profile.uncounted is not None:
        yield _fit(_work(profile))
    columns = _columns(profile)
    size = "".join(f"{heading:>{width}}" for heading, width, _ in columns)
    ran = [r for r in profile.rows if r.count]
    yield ""
    has_kernels = any(r.kind not in OPERATIONS for r in ran)
    heading = "kernels"
    if profile.mode == "eager":
        heading = "operations, and kernels of programs" if has_kernels else "operations"
    yield f"{'time':>9}{'share':>8}{'calls':>8}{size}  {heading}"
    for row in ran[:ROWS]:
        of = f" of {row.program}" if row.program else ""
        yield _row(row, f"{row.name}  {short_lines(row.lines)}{of}", columns)
    yield from _rest(ran[ROWS:], "others", columns, profile)
    if any(r.kind == "program" for r in ran):
        yield f"  {_OWN_OF_CALLS if has_kernels else _UNSEEN}"
    if not ran:
        yield f"{'':25}nothing ran"
    for name, seconds in profile.outside.items():
        share = seconds / profile.seconds if profile.seconds else 0.0
        indent = " " * (8 + (0 if columns[1:] else len(size)))
        yield _fit(f"{seconds_in_words(seconds):>9}{share:>8.1%}{indent}  {name}")
    if not ran:
        return
    yield ""
    yield f"{'time':>9}{'share':>8}{'calls':>8}{size}  lines"
    for row in profile.lines[:LINES]:
        yield _row(row, short_lines(row.lines) or "<unknown line>", columns)
    yield from _rest(profile.lines[LINES:], "other lines", columns, profile)


def _about_calls(profile: Profile) -> str:
    if profile.mode == "eager":
        told = f", {sum(r.count for r in profile.operations)} operations"
        launches = sum(r.count for r in profile.rows if r.kind == "kernel")
        return f"{told}, {launches} launches of kernels in programs" if launches else told
    launches = sum(r.count for r in profile.rows if r.kind == "kernel")
    kernels = sum(r.kind == "kernel" for r in profile.rows)
    return f" a call ({profile.calls} calls), {kernels} kernels, {launches} launches"


def _overhead(profile: Profile) -> str:
    low, high = (f"{100 * (x - 1):+.1f}" for x in (profile.overhead.low, profile.overhead.high))
    ratio = f"{100 * (profile.overhead.median - 1):+.1f} %"
    if profile.unprofiled is None:
        return f"profiling makes it longer by about {ratio} ({low} to {high} %): to write it down"
    alone = seconds_in_words(profile.unprofiled)
    return f"unprofiled {alone}; profiling makes it longer by {ratio} ({low} to {high} %)"


def _work(profile: Profile) -> str:
    moved, flops = profile.traffic or 0, profile.flops or 0
    told = f"work: {flops_in_words(flops)}, at least {bytes_in_words(moved)} read and written"
    if profile.uncounted:
        told += f"; of {profile.uncounted} unknown"
    return told


def _row(row: Row, label: str, columns: Sequence[Column]) -> str:
    between = "".join(f"{words(row):>{width}}" for _, width, words in columns)
    return _fit(
        f"{seconds_in_words(row.seconds):>9}{row.share:>8.1%}{row.count:>8}{between}  {label}"
    )


def _rest(
    rows: Sequence[Row], label: str, columns: Sequence[Column], profile: Profile
) -> Iterable[str]:
    if rows:
        yield _row(
            group([(0, r) for r in rows], profile.seconds)[0], f"{len(rows)} {label}", columns
        )


def _fit(line: str) -> str:
    line = line.rstrip()
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
