"""Lags of a scan: iterations that see earlier rows of the xs, and ys of earlier iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from staticflow import pytree
from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.slicing import as_position
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import of_size
from staticflow.ops.loops.carry import call, check_pair, check_tree
from staticflow.ops.loops.leaves import tensors_of
from staticflow.ops.loops.ragged import check_lengths

__all__ = ["Lagged", "Taps"]

Taps = Mapping[str, Any]
"""Lags under ``"xs"`` and ``"ys"``: ints, or for xs a container of ints for each entry."""


class Lagged:
    """A scan with lags as one without: lagged xs are xs of their own, and the last ys are carried.

    ``taps["xs"]`` are lags of 0 and more, or a dict, tuple or list of such lags, as the xs are one,
    and ``taps["ys"]`` of 1 and more. Back is where the loop came
    from: to later rows, where it runs in ``reverse``.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        taps: Taps,
        ys_init: Any,
        reverse: bool,
    ) -> None:
        if not isinstance(taps, Mapping):
            _refuse(f'taps are a dict of lags of "xs" and "ys", not {type(taps).__name__}')
        unknown = set(taps) - {"xs", "ys"}
        if unknown:
            _refuse(f'taps are of "xs" and "ys", not of {sorted(map(str, unknown))}')
        self.fn, self.reverse = fn, reverse
        self.__wrapped__ = fn
        self.of_each = _lags_of_each(taps.get("xs"))
        lags = [lag for of_one in self.of_each.values() for lag in of_one or ()]
        self.on_xs = () if self.of_each else _lags(taps.get("xs"), "'xs'", 0)
        self.on_ys = _lags(taps.get("ys"), "'ys'", 1)
        if bool(self.on_ys) != (ys_init is not None):
            _refuse('taps of "ys" and ys_init go together')
        leaves, tree = pytree.flatten(ys_init)
        self.ys_init = pytree.unflatten(tree, tensors_of("scan", "ys_init", tree, leaves))
        self.longest = max(lags or self.on_xs, default=0)

    def xs(self, xs: Any) -> Any:
        """One tree for each lag, all as long as the longest lag leaves."""
        if self.of_each:
            return self._each(xs)
        return tuple([self._behind(xs, lag) for lag in self.on_xs]) if self.on_xs else xs

    def _behind(self, xs: Any, lag: int) -> Any:
        """The rows that lie ``lag`` iterations back."""
        for x in pytree.flatten(xs)[0]:
            rows = getattr(x, "shape", (self.longest,))[:1]
            if rows and isinstance(rows[0], int) and rows[0] < self.longest:
                _refuse(
                    f"the taps of 'xs' reach {self.longest} iterations back, and the xs have "
                    f"{rows[0]} rows; they must have {self.longest} at least, or the lags be less"
                )
        first = lag if self.reverse else self.longest - lag
        return pytree.map_tree(lambda x: narrow(x, 0, first, x.shape[0] - self.longest), xs)

    def _each(self, xs: Any) -> Any:
        """``xs`` with a tuple of as many as it has lags in the place of each entry."""
        kind, keys, _, aux, order = pytree.flatten(xs)[1]
        if kind is not None and pytree.is_registered(kind):
            _refuse(f"taps of each entry of xs need a dict, a tuple or a list, not {kind.__name__}")
        names = getattr(kind, "_fields", None)
        known = keys if names is None or set(self.of_each) <= set(keys) else names
        if not set(self.of_each) <= set(known):
            _refuse(
                f"taps of 'xs' are of the entries {list(self.of_each)}, and the entries of xs are "
                f"{list(known)}"
            )
        entries = [xs[key] for key in keys]
        made = []
        for key, entry in zip(known, entries, strict=True):
            lags = self.of_each.get(key)
            of_one = None if lags is None else tuple([self._behind(entry, lag) for lag in lags])
            made.append(self._behind(entry, 0) if of_one is None else of_one)
        leaves = [pytree.flatten(m) for m in made]
        tree = pytree.TreeDef(kind, keys, tuple([t for _, t in leaves]), aux, order)
        return pytree.unflatten(tree, [leaf for own, _ in leaves for leaf in own])

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


def _lags_of_each(given: Any) -> dict[Any, tuple[int, ...] | None]:
    """The lags of each entry of the xs by its key, None for the row itself; empty where one row of
    lags is given for all."""
    if isinstance(given, Mapping):
        entries = dict(given)
    elif isinstance(given, tuple | list) and any(
        lags is None or isinstance(lags, tuple | list) for lags in given
    ):
        entries = dict(enumerate(given))
    else:
        return {}
    return {
        key: None if lags is None else _lags(lags, f"'xs'[{key!r}]", 0)
        for key, lags in entries.items()
    }


def _lags(given: Any, which: str, least: int) -> tuple[int, ...]:
    given = [] if given is None else list(given) if isinstance(given, Iterable) else given
    lags = [as_position(lag) for lag in given] if isinstance(given, list) else [None]
    if any(not isinstance(lag, int) or lag < least for lag in lags):
        _refuse(f"taps of {which} are ints from {least} on, not {given}")
    return tuple(lag for lag in lags if isinstance(lag, int))


def _refuse(why: str) -> NoReturn:
    raise ShapeError(f"scan: {why}, at {format_locs(here())}")
