"""Random programs of views, indexing and joining, each step said for tensors and for NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import staticflow as sf

__all__ = ["Program", "draw_program", "run"]

Array = np.ndarray[Any, Any]
Fn = Callable[[Any], Any]


@dataclass(frozen=True)
class Program:
    """Steps, each for tensors (of either mode) and for arrays."""

    shape: tuple[int, ...]
    steps: tuple[tuple[str, Fn, Fn], ...]

    def __str__(self) -> str:
        return f"{self.shape}: " + " | ".join(name for name, _, _ in self.steps)


def run(program: Program, x: Any, tensors: bool) -> Any:
    for _, of_tensor, of_array in program.steps:
        x = (of_tensor if tensors else of_array)(x)
    return x


def draw_program(rng: np.random.Generator, most: int = 6) -> Program:
    """A program whose steps fit the shape of a first argument."""
    shape = tuple(int(n) for n in rng.choice((1, 2, 3, 4, 5), size=rng.integers(1, 4)))
    example = np.zeros(shape)
    steps = []
    for _ in range(rng.integers(1, most + 1)):
        step = FORMS[rng.integers(len(FORMS))](rng, example)
        if step is None or not 0 < step[2](example).size < 400:
            continue
        steps.append(step)
        example = step[2](example)
    return Program(shape, tuple(steps))


def _both(name: str, fn: Fn) -> tuple[str, Fn, Fn]:
    return name, fn, fn


def _dim(rng: np.random.Generator, x: Array) -> int:
    return int(rng.integers(-x.ndim, x.ndim))


# -- views ----------------------------------------------------------------------------------------


def _permute(rng: np.random.Generator, x: Array) -> Any:
    order = [int(d) for d in rng.permutation(x.ndim)]
    return f"permute {order}", lambda t: t.permute(order), lambda a: a.transpose(order)


def _reshape(rng: np.random.Generator, x: Array) -> Any:
    factors = [p for n in x.shape for p in ((2, 2) if n == 4 else (n,)) if p != 1]
    shape = [1]
    for f in rng.permutation(factors) if rng.random() < 0.5 else factors:
        if rng.random() < 0.5:
            shape.append(1)
        shape[-1] *= int(f)
    shape[int(rng.integers(len(shape)))] = -1
    return _both(f"reshape {shape}", lambda t: t.reshape(shape))


def _merge(rng: np.random.Generator, x: Array) -> Any:
    """By the sizes of the tensor itself, so that it holds for unknown ones."""
    if x.ndim < 2:
        return None
    return _both("merge", lambda t: t.reshape((t.shape[0] * t.shape[1], *t.shape[2:])))


def _turn(rng: np.random.Generator, x: Array) -> Any:
    if x.ndim < 2:
        return None
    return _both("turn", lambda t: t.reshape((t.shape[1], t.shape[0], *t.shape[2:])))


def _flip(rng: np.random.Generator, x: Array) -> Any:
    d = _dim(rng, x)
    return f"flip {d}", lambda t: t.flip(d), lambda a: np.flip(a, d)


def _roll(rng: np.random.Generator, x: Array) -> Any:
    d, by = _dim(rng, x), int(rng.integers(-5, 6))
    return f"roll {by} {d}", lambda t: t.roll(by, d), lambda a: np.roll(a, by, d)


def _unsqueeze(rng: np.random.Generator, x: Array) -> Any:
    if x.ndim > 3:
        return None
    d = int(rng.integers(-x.ndim - 1, x.ndim + 1))
    return f"unsqueeze {d}", lambda t: t.unsqueeze(d), lambda a: np.expand_dims(a, d)


def _diagonal(rng: np.random.Generator, x: Array) -> Any:
    if x.ndim < 2:
        return None
    offset = int(rng.integers(-1, 2))
    return (
        f"diagonal {offset}", lambda t: t.diagonal(offset, -1, 0), lambda a: np.diagonal(a, offset, -1, 0),
    )  # fmt: skip


def _unfold(rng: np.random.Generator, x: Array) -> Any:
    d = _dim(rng, x)
    size, step = int(rng.integers(1, x.shape[d] + 1)), int(rng.integers(1, 3))

    def windows(a: Array) -> Array:
        axis = d % a.ndim
        found = np.lib.stride_tricks.sliding_window_view(a, size, axis)
        return found[(slice(None),) * axis + (slice(None, None, step),)]

    return (
        (f"unfold {d} {size} {step}", lambda t: t.unfold(d, size, step), windows)
        if x.ndim < 4
        else None
    )


def _tril(rng: np.random.Generator, x: Array) -> Any:
    k = int(rng.integers(-1, 2))
    return (f"tril {k}", lambda t: t.tril(k), lambda a: np.tril(a, k)) if x.ndim > 1 else None


# -- joining --------------------------------------------------------------------------------------


def _cat(rng: np.random.Generator, x: Array) -> Any:
    d = _dim(rng, x)
    return (
        f"cat {d}", lambda t: sf.cat([t, t.flip(d), t * 2], d),
        lambda a: np.concatenate([a, np.flip(a, d), a * 2], d),
    )  # fmt: skip


def _stack(rng: np.random.Generator, x: Array) -> Any:
    d = _dim(rng, x)
    return (
        (f"stack {d}", lambda t: sf.stack([t, t + 1], d), lambda a: np.stack([a, a + 1], d))
        if x.ndim < 4
        else None
    )


def _repeat(rng: np.random.Generator, x: Array) -> Any:
    sizes = [int(n) for n in rng.integers(1, 3, x.ndim)]
    return f"repeat {sizes}", lambda t: t.repeat(sizes), lambda a: np.tile(a, sizes)


def _split(rng: np.random.Generator, x: Array) -> Any:
    d, n = _dim(rng, x), int(rng.integers(1, 4))
    return (
        f"split {n} {d}", lambda t: sf.cat(t.tensor_split(n, d)[::-1], d),
        lambda a: np.concatenate(np.array_split(a, n, d)[::-1], d),
    )  # fmt: skip


# -- indexing -------------------------------------------------------------------------------------


def _key_part(rng: np.random.Generator, n: int) -> Any:
    kind = rng.integers(5)
    if kind == 0:
        return int(rng.integers(-n, n))
    if kind == 1:
        return slice(int(rng.integers(-n - 1, n + 1)), None, int(rng.integers(1, 3)))
    if kind == 2:
        return slice(None, int(rng.integers(-n - 1, n + 1)))
    return slice(None)


def _basic(rng: np.random.Generator, x: Array) -> Any:
    parts: list[Any] = [_key_part(rng, n) for n in x.shape[: rng.integers(1, x.ndim + 1)]]
    if rng.random() < 0.3:
        parts.insert(int(rng.integers(len(parts) + 1)), None)
    if rng.random() < 0.3:
        parts.append(Ellipsis)
    key = tuple(parts)
    return _both(f"[{key}]", lambda t: t[key]) if x[key].ndim else None


def _advanced_key(rng: np.random.Generator, x: Array) -> tuple[Any, ...]:
    """Index tensors and slices; no ints, which NumPy takes for index tensors."""
    batch = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 3)))
    parts: list[Any] = []
    for n in x.shape:
        part = _key_part(rng, n)
        if rng.random() < 0.5:
            shape = tuple(1 if rng.random() < 0.3 else b for b in batch)
            part = rng.integers(-n, n, shape)
        parts.append(slice(None) if isinstance(part, int) else part)
    if not any(isinstance(p, np.ndarray) for p in parts):
        parts[0] = rng.integers(-x.shape[0], x.shape[0], batch)
    return tuple(parts)


def _advanced(rng: np.random.Generator, x: Array) -> Any:
    key = _advanced_key(rng, x)
    return _both(f"[{key}]", lambda t: t[key]) if x[key].ndim < 5 else None


def _assigned(a: Array, key: Any, value: Any) -> Array:
    out = np.array(a)
    out[key] = value
    return out


def _set(t: Any, key: Any, value: Any) -> Any:
    out = t.clone()
    out[key] = value
    return out


def _assign(rng: np.random.Generator, x: Array) -> Any:
    """With values that say where they come from; of places that repeat the last one stays."""
    key = (
        _basic(rng, x) and _advanced_key(rng, x)
        if rng.random() < 0.5
        else (_key_part(rng, x.shape[0]),)
    )
    if key is None:
        return None
    value = rng.normal(size=x[key].shape)
    return f"[{key}] = v", lambda t: _set(t, key, value), lambda a: _assigned(a, key, value)


def _masked(rng: np.random.Generator, x: Array) -> Any:
    return (
        "[x > 0] = 2", lambda t: _set(t, t > 0, 2.0), lambda a: _assigned(a, a > 0, 2.0)
    )  # fmt: skip


def _selected(rng: np.random.Generator, x: Array) -> Any:
    d = _dim(rng, x)
    index = rng.integers(0, x.shape[d], 3)
    tensor = sf.from_numpy(index)
    return f"index_select {d}", lambda t: t.index_select(d, tensor), lambda a: np.take(a, index, d)


def _gathered(rng: np.random.Generator, x: Array) -> Any:
    d = _dim(rng, x)
    shape = list(x.shape)
    shape[d] = 2
    index = rng.integers(0, x.shape[d], shape)
    tensor = sf.from_numpy(index)
    return f"gather {d}", lambda t: t.gather(d, tensor), lambda a: np.take_along_axis(a, index, d)


def _added(rng: np.random.Generator, x: Array) -> Any:
    index = rng.integers(0, x.shape[0], 3)
    tensor = sf.from_numpy(index)

    def added(a: Array) -> Array:
        out = np.array(a)
        np.add.at(out, index, np.take(a, index, 0) * 0.5)
        return out

    return "index_add", lambda t: t.index_add(0, tensor, t.index_select(0, tensor) * 0.5), added


FORMS = (
    _permute, _reshape, _merge, _turn, _flip, _roll, _unsqueeze, _diagonal, _unfold, _tril, _cat, _stack, _repeat,
    _split, _basic, _basic, _advanced, _advanced, _assign, _masked, _selected, _gathered, _added,
)  # fmt: skip
