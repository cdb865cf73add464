"""Lags of a scan: iterations that see earlier rows of the xs, and ys of earlier iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow import pytree
from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.slicing import as_position
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import of_size
from staticflow.ops.loops.carry import call, check_pair, check_tree
from staticflow.ops.loops.leaves import tensors_of
from staticflow.ops.loops.ragged import check_lengths

__all__ = ["Lagged"]


class Lagged:
    """A scan with lags as one without: lagged xs are xs of their own, and the last ys are carried.

    ``taps["xs"]`` are lags of 0 and more, ``taps["ys"]`` of 1 and more. Back is where the loop came
    from: to later rows, where it runs in ``reverse``.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        taps: Mapping[str, Sequence[int]],
        ys_init: Any,
        reverse: bool,
    ) -> None:
        unknown = set(taps) - {"xs", "ys"}
        if unknown:
            _refuse(f'taps are of "xs" and "ys", not of {sorted(unknown)}')
        self.fn, self.reverse = fn, reverse
        self.__wrapped__ = fn
        self.on_xs = _lags(taps, "xs", 0)
        self.on_ys = _lags(taps, "ys", 1)
        if bool(self.on_ys) != (ys_init is not None):
            _refuse('taps of "ys" and ys_init go together')
        leaves, tree = pytree.flatten(ys_init)
        self.ys_init = pytree.unflatten(tree, tensors_of("scan", "ys_init", tree, leaves))
        self.longest = max(self.on_xs, default=0)

    def xs(self, xs: Any) -> Any:
        """One tree for each lag, all as long as the longest lag leaves."""
        if not self.on_xs:
            return xs

        def behind(lag: int) -> Any:
            first = lag if self.reverse else self.longest - lag
            return pytree.map_tree(lambda x: narrow(x, 0, first, x.shape[0] - self.longest), xs)

        return tuple(map(behind, self.on_xs))

    def lengths(self, lengths: Any, xs: Any) -> Any:
        """How many iterations a row of a batch makes, given how many rows of the xs it has."""
        if lengths is None:
            return None
        return (check_lengths(lengths, xs)[0] - self.longest).clamp(min=0)

    def init(self, init: Any) -> Any:
        """The carry, and the ys before the first iteration, the last one first."""
        if not self.on_ys:
            return init, ()
        count = max(self.on_ys)

        def with_count(y: Any) -> Any:
            """``y`` with ``count`` rows, which an unknown size is assumed to be."""
            if not y.shape or (isinstance(y.shape[0], int) and y.shape[0] != count):
                _refuse(f"ys_init has the shape {list(y.shape)}; it needs {count} rows, the last "
                        "being the y before the first iteration")  # fmt: skip
            return of_size(y, 0, count)

        whole = pytree.map_tree(with_count, self.ys_init)
        rows = (pytree.map_tree(lambda y, at=at: y[at], whole) for at in reversed(range(count)))
        return init, tuple(rows)

    def step(self, carry: Any, x: Any) -> Any:
        """``fn(carry, x)``, or ``fn(carry, x, past)`` with the ys at the lags."""
        own, window = carry
        past = (tuple(window[lag - 1] for lag in self.on_ys),) if self.on_ys else ()
        result = check_pair(call("scan", "fn", self.fn, own, x, *past))
        after, y = check_tree("scan", own, result[0]), result[1]
        if window:
            y = check_tree("scan", window[0], y, "y")
        return (after, (y, *window[:-1]) if window else ()), y


def _lags(taps: Mapping[str, Sequence[int]], which: str, least: int) -> tuple[int, ...]:
    given = list(taps.get(which, ()))
    lags = [as_position(lag) for lag in given]
    if any(not isinstance(lag, int) or lag < least for lag in lags):
        _refuse(f"taps of {which!r} are ints from {least} on, not {given}")
    return tuple(lag for lag in lags if isinstance(lag, int))


def _refuse(why: str) -> None:
    raise ShapeError(f"scan: {why}, at {format_locs(here())}")
