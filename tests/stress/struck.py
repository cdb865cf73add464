"""A worker of `test_stress`: calls, in the midst of which what they have made is changed.

``python tests/stress/struck.py SEED TRIALS`` runs a program of a few operations for each number from
``SEED`` on. Wherever the collector of garbage may run, it finds new tensors, views and entries of
the tape, and puts into their slots what has no place there. Under ``PYTHONMALLOC=debug`` what is
used after it was freed does not look as it did.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from stress_pool import SLOT_VALUES, slots_of

import staticflow as sf

PROGRAMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "two": lambda x, w: x * w, "one": lambda x, w: w.exp(), "number": lambda x, w: w * 2.5 + 1,
    "power": lambda x, w: w**2, "product": lambda x, w: x @ w, "sum": lambda x, w: w.sum(0),
    "mean": lambda x, w: (w * x).mean(), "view": lambda x, w: w.t().reshape(9)[1:4],
    "several": lambda x, w: w.max(0)[0], "cat": lambda x, w: sf.cat([x, w]),
    "where": lambda x, w: sf.where(x > 0, w, x), "softmax": lambda x, w: sf.softmax(w, -1),
    "in place": lambda x, w: (w * 1.0).add_(x).mul_(2.0), "of two": lambda x, w: w.topk(2)[0],
    "copy": lambda x, w: sf.zeros(3, 3).copy_(w * 2.0), "parts": lambda x, w: w.unbind()[0] * x[0],
    "renewed": lambda x, w: w + (x * 1.0).clamp_(0, 1), "draw": lambda x, w: sf.rand(3, 3) * w,
    "index": lambda x, w: w[sf.tensor([0, 1])], "split": lambda x, w: w.split(1)[2],
    "layer": lambda x, w: sf.nn.functional.layer_norm(w, (3,)), "part": lambda x, w: change_part(w * 1.0),
}  # fmt: skip

STRUCK = ("Tensor", "View", "TapeEntry", "PerElementEntry", "Output")
"""The classes whose instances are changed, and with a tensor what its slots hold."""


def change_part(x: Any) -> Any:
    x[1:].mul_(3.0)
    return x


class Strike:
    """What is done to new objects: only other arrays for tensors, or anything for any slot."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.rate = chance.choice([1.0, 0.5, 0.2, 0.05])
        self.only_arrays = chance.random() < 0.5

    def __call__(self, phase: str, info: Any) -> None:
        if phase != "stop":
            return
        for thing in gc.get_objects():
            ours = type(thing).__module__.startswith("staticflow.eager")
            if ours and type(thing).__name__ in STRUCK and self.chance.random() < self.rate:
                with contextlib.suppress(Exception):
                    self.change(thing)

    def change(self, thing: Any) -> None:
        if self.only_arrays:
            if type(thing) is sf.Tensor:
                shape = getattr(thing._data, "shape", (3, 3))
                thing._data = np.full(shape, 7.0, np.float32)
            return
        if type(thing) is sf.Tensor and self.chance.random() < 0.5:
            inside = (thing._memory, thing._view, thing._vertex)
            parts = [part for part in inside if type(part).__name__ in (*STRUCK, "Memory")]
            thing = self.chance.choice(parts or [thing])
        slot = self.chance.choice(slots_of(thing))
        if self.chance.random() < 0.2:
            delattr(thing, slot)
        else:
            setattr(thing, slot, self.chance.choice(SLOT_VALUES))


@contextlib.contextmanager
def striking(strike: Strike) -> Iterator[None]:
    before = gc.get_threshold()
    gc.callbacks.append(strike)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(strike)


def run(program: Callable[[Any, Any], Any], x: Any, w: Any) -> list[Any]:
    """What a program gives, several times, and one backward; any error may come of it."""
    results: list[Any] = []
    for _ in range(4):
        with contextlib.suppress(Exception):
            results.append(program(x, w))
    for result in results[:1]:
        with contextlib.suppress(Exception):
            result.sum().backward()
    return results


def operands() -> tuple[Any, Any]:
    return sf.ones(3, 3), sf.ones(3, 3, requires_grad=True)


def main(seed: int, trials: int) -> None:
    faulthandler.enable()
    for program in PROGRAMS.values():
        program(*operands()).sum().backward()  # each does compute
    kept = [run(program, *operands()) for program in PROGRAMS.values()]  # so that all is compiled
    for number in range(seed, seed + trials):
        gc.collect()
        gc.freeze()  # all that is there before
        chance = random.Random(number)
        name = chance.choice([*PROGRAMS])
        print(number, name, flush=True)
        x, w = operands()
        with striking(Strike(chance)):
            kept.append(run(PROGRAMS[name], x, w))  # or their memory would be used again


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
