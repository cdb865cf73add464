"""Which layouts, dtypes and numbers of threads each size of an op meets.

The full product of 19 layouts, some 40 samples and sizes, up to 9 dtypes and 2 numbers of threads
would take nine hours of one core for all ops. What other code takes over at is a layout *and* a
size; dtypes and threads change which instance of a kernel runs, not how it places elements. So the
design is a covering one. Of one op meet

- every layout and every threshold of at most `LARGE` elements, at one of its sides at least; every
  layout and the sizes around `SPREAD`, at one of them; one layout and each of the largest sizes, at
  which copies alone differ;
- every layout and every dtype, every layout and either number of threads, every dtype and either
  number of threads, every size and several dtypes;
- gradients as often, with the floating dtypes by turns.

`test_layouts.test_the_design_covers` holds it to that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from staticflow.eager.costs import LARGE, SPREAD
from staticflow.graph.dtypes import DType

__all__ = ["THREADS", "Case", "design"]

THREADS = (2, 1)

_BASE = 5
"""A sample of the op table meets every fifth layout, if there are as many samples."""


@dataclass(frozen=True, slots=True)
class Case:
    """A sample, by number, in a layout: of which dtype its operands are, of which those whose
    gradients are taken (None: of none), and how many threads there are."""

    sample: int
    layout: str
    dtype: DType
    real: DType | None
    threads: int


def design(
    elements: Sequence[int], base: int, layouts: Sequence[str], dtypes: Sequence[DType], turn: int
) -> Iterator[Case]:
    """The cases of an op whose samples have so many elements; the last ``base`` of them are those of
    the op table, at which nothing takes over. ``turn`` differs from op to op."""
    floats = [d for d in dtypes if d.is_floating]
    classes = [_BASE if i >= len(elements) - base else _apart(n) for i, n in enumerate(elements)]
    met: Counter[int] = Counter()
    turns: Counter[int] = Counter()
    for i in sorted(
        range(len(elements)), key=elements.__getitem__
    ):  # below a threshold, then at it
        most = classes[i]
        apart = min(most, classes.count(most)) if most <= _BASE else most
        met[most] += 1
        for j in range((met[most] + turn) % apart, len(layouts), apart):
            k = turns[j] + j + turn
            turns[j] += 1
            real = floats[k % len(floats)] if floats else None
            threads = THREADS[(turns[j] + j // 2) % 2]
            yield Case(i, layouts[j], dtypes[k % len(dtypes)], real, threads)


def _apart(elements: int) -> int:
    """Every how many layouts a size of so many elements meets."""
    for most, apart in ((2 * LARGE, 2), (2 * SPREAD, 4)):
        if elements < most:
            return apart
    return 19
