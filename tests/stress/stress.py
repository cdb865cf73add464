"""Stress of native code: trials of random calls on hostile values, while tensors change.

``python tests/stress/stress.py SEED TRIALS`` runs the trials of a seed, the same each time but for what
threads and signals do, and says before each one what it is. It ends with 0 if all went well; a crash
ends it with a signal. `test_stress` runs it.
"""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import inspect
import pickle
import random
import resource
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hostile import Mischief
from stress_pool import Empty, Lively, Pool, Refusing, Slotted, new_programs, programs
from weather import WEATHER

import staticflow as sf
from staticflow.ops.declaring.thread import State, thread
from staticflow.runtime.once import compiling
from staticflow.runtime.turn import updating

MOST_BYTES = 8 << 30
"""Of address space, so that what asks for too much is refused."""

LARGEST = 1 << 20
"""Elements that no tensor of a pool has, which else would double and double."""

FEW = 1 << 12
"""Elements of what is cut into pieces again and again."""

SLOW = 300
"""Seconds after which a trial hangs."""

_LEFT_OUT = frozenset((
    "apply_", "map_", "cuda", "to", "pin_memory", "backward", "__init__", "__new__",
    "__init_subclass__", "__subclasshook__", "__del__", "__setattr__", "__delattr__", "__dir__",
    "__getattribute__", "__class_getitem__", "register_hook", "__reduce__", "__reduce_ex__",
    "__sizeof__", "register_post_accumulate_grad_hook", "det", "slogdet", "tensor_split",
))  # fmt: skip
"""Methods that are tried elsewhere, or are slow."""


def _methods() -> list[str]:
    names = [n for n in dir(sf.Tensor) if callable(getattr(sf.Tensor, n, None))]
    native = [n for n in names if type(inspect.getattr_static(sf.Tensor, n)) is _DESCRIPTOR]
    return [n for n in [*names, *native, *native] if n not in _LEFT_OUT]


_DESCRIPTOR = type(str.join)
_FUNCTIONS = (
    "add", "sub", "mul", "cat", "stack", "where", "clamp", "einsum", "rand", "randn", "rand_like",
    "zeros", "full", "arange", "tensor", "as_tensor", "from_numpy", "from_dlpack", "matmul",
    "maximum", "meshgrid", "broadcast_tensors", "cartesian_prod", "block_diag", "split", "chunk",
    "unbind", "sum", "softmax", "sort", "topk", "gather", "scatter_add", "index_add", "roll",
    "flip", "tile", "randperm", "bernoulli", "multinomial", "dropout", "linear", "conv1d",
    "layer_norm", "cross_entropy", "mse_loss", "embedding", "pad", "normal", "hstack", "vstack",
    "narrow", "movedim", "permute", "unflatten", "cumsum", "addmm", "lerp", "outer", "tensordot",
)  # fmt: skip


def _functions() -> list[Callable[..., Any]]:
    rooms = (sf, sf.nn.functional)
    found = [getattr(room, n) for n in _FUNCTIONS for room in rooms if hasattr(room, n)]
    return [f for f in found if callable(f)]


class Trial:
    """Random ``calls`` on a pool, in some weather."""

    calls = 25

    def __init__(self, number: int, chance: random.Random) -> None:
        self.number, self.chance = number, chance
        self.pool = Pool(chance)
        self.programs, changed = programs(), ()
        if chance.random() < 0.2:
            with contextlib.suppress(Exception):  # a generator that is not whole ends every trace
                self.programs = changed = new_programs()
        self.mischief = Mischief(self.pool, changed[:2])
        self.methods, self.functions = _methods(), _functions()

    def run(self, weather: str) -> None:
        """All calls; raises `SystemError` for what native code gave wrongly."""
        with WEATHER[weather](self):
            for _ in range(self.calls):
                if self.chance.random() < 0.3:
                    self.attempt(self.mischief.strike)
                self.attempt(self.call)

    def attempt(self, call: Callable[[], Any]) -> None:
        """The call computes, or raises an error that is no fault of native code."""
        try:
            out = call()
        except SystemError:
            raise
        except (Exception, KeyboardInterrupt):
            pass
        else:
            for x in out if type(out) is tuple else (out,):
                if isinstance(x, sf.Tensor) and _size(x) < LARGEST:
                    self.pool.add(x)

    def call(self) -> Any:
        """One call, of whatever kind."""
        return self.chance.choice(_KINDS)(self)

    def method(self) -> Any:
        return getattr(self.pool.pick(), self.chance.choice(self.methods))(*self.args())

    def again(self) -> Any:
        """The same call some times, so that it is remembered, with mischief in between."""
        name = self.chance.choice(["view", "sum", "t", "unbind", "chunk", "split", "add_", "mean"])
        x, args = self.pool.pick(), self.args()
        if name in ("unbind", "chunk", "split") and _size(x) > FEW:  # with so many allocations
            x = sf.ones(3, 3)
        for _ in range(4):
            out = getattr(x, name)(*args)
        self.mischief.strike()
        return (out, getattr(x, name)(*args))

    def function(self) -> Any:
        return self.chance.choice(self.functions)(*self.args())

    def of_many(self) -> Any:
        """Lists of tensors."""
        tensors = [self.pool.pick() for _ in range(self.chance.choice([1, 2, 3, 40, 300]))]
        function = self.chance.choice([sf.cat, sf.stack, sf.meshgrid, sf.hstack])
        return function(*tensors) if self.chance.random() < 0.3 else function(tensors)

    def subscript(self) -> Any:
        x, at = self.pool.pick(), tuple(self.args()[:2])
        if self.chance.random() < 0.5:
            return x[at]
        x[at] = self.arg()

    def draw(self) -> Any:
        """Draws that are remembered, from a generator that is meddled with."""
        for _ in range(3):
            out = sf.rand(3)
        self.mischief.strike()
        return (out, sf.rand(3), self.pool.pick().uniform_())

    def backward(self) -> Any:
        x = self.pool.pick()
        y = (x.t() * self.pool.pick()).sum()
        self.mischief.strike()
        y.backward(retain_graph=self.chance.random() < 0.5)
        return x.grad

    def hooked(self) -> Any:
        x = self.pool.pick()
        x.register_hook(lambda ct: self.mischief.strike())
        y = (x * 2.0).exp().sum()
        y.backward()

    def program(self) -> Any:
        """A compiled program, of variables that it updates."""
        step, total, variable = self.programs
        if self.mischief.inside:
            for _ in range(4):
                self.attempt(
                    self.chance.choice([self.mischief.write_slot, self.mischief.delete_slot])
                )
        if self.chance.random() < 0.1:
            variable.data = sf.ones(3, 3)
        return self.chance.choice([step, total])(*self.args()[:2])

    def copied(self) -> Any:
        """Copies of every kind, and what is made of them in two steps, with mischief in between."""
        x = self.pool.pick()
        kind = self.chance.randrange(5)
        if kind == 0:
            return copy.copy(x)
        if kind == 1:
            return copy.deepcopy([x, x])[0]
        if kind == 2:
            return pickle.loads(pickle.dumps(x))
        make, args, *rest = x.__reduce_ex__(self.chance.choice([2, 4, 5]))
        self.mischief.strike()
        out = make(*args)
        if kind == 4 and rest and rest[0] is not None:
            out.__setstate__(rest[0])
        return out

    def half_made(self) -> Any:
        """What was never made, or is in the making: of tensors, generators, layers and programs."""
        cls = self.chance.choice(_CLASSES)
        x = object.__new__(cls)
        if hasattr(x, "__setstate__") and self.chance.random() < 0.5:
            x.__setstate__(self.chance.choice([self.arg(), ("cpu", [1, 2]), ("cpu", [1]), {}]))
        self.mischief.strike()
        if cls is sf.Generator:
            return sf.rand(3, generator=x)
        return self.chance.choice([copy.copy, copy.deepcopy, repr, pickle.dumps, self._used])(x)

    def _used(self, x: Any) -> Any:
        return x(*self.args()) if callable(x) else x * self.pool.pick()

    def arg(self) -> Any:
        """An argument."""
        kind = self.chance.random()
        if kind < 0.35:
            return self.pool.pick()
        if kind < 0.6:
            return self.mischief.value()
        return self.chance.choice(_PLAIN)

    def args(self) -> list[Any]:
        """Some arguments."""
        return [self.arg() for _ in range(self.chance.choice([0, 0, 1, 1, 1, 2, 2, 3, 4, 40]))]


def _size(x: Any) -> int:
    data = getattr(x, "_data", None)
    return data.size if isinstance(data, np.ndarray) else 0


_KINDS = (
    Trial.method, Trial.method, Trial.method, Trial.method, Trial.again, Trial.function,
    Trial.function, Trial.of_many, Trial.subscript, Trial.draw, Trial.backward, Trial.hooked,
    Trial.program, Trial.copied, Trial.half_made,
)  # fmt: skip
_CLASSES = (
    sf.Tensor, Empty, Slotted, Lively, Refusing, sf.nn.Parameter, sf.Generator, sf.nn.Linear,
    type(sf.jit(abs)), sf.optim.SGD,
)  # fmt: skip
_PLAIN: tuple[Any, ...] = (
    0, 1, 2, -1, 3, 1.5, True, None, "mean", (3, 3), (0, 1), [1, 2], slice(0, 2), slice(None, 9, 2),
    ..., 2**62, float("nan"), sf.float32, sf.int64, "float64", (2**40, 2**40), slice(slice(1)), [],
    np.ones((3, 3), np.float32), [[1.0, 2.0], [3.0, 4.0]],
)  # fmt: skip


# -- the program --------------------------------------------------------------------------------


def switches() -> list[Any]:
    """What a call leaves as it was."""
    names = ("usual", "recording", "tracing", "inference", "noted", "saved_hooks")
    return [getattr(thread.state, s) for s in State.__slots__ if s in names]


def held() -> list[Any]:
    """The locks that the thread holds."""
    turn: Any = updating._acquire
    return [compiling._is_owned(), turn.__self__._is_owned(), updating._held.value]


def is_well() -> bool:
    """Whether operations still give what they should."""
    x = sf.ones(3, 3, requires_grad=True)
    y = (x.t() * 2.0).sum()
    y.backward()
    return y.item() == 18.0 and x.grad is not None and x.grad.tolist() == [[2.0] * 3] * 3


def main(seed: int, trials: int, only: str = "") -> int:
    """Run the trials of a seed."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda *_: None
    normal = switches()
    for number in range(trials):
        chance = random.Random(f"{seed} {number}")
        weather = only or chance.choice([*WEATHER])
        print(f"trial {number}: {weather}", flush=True)
        faulthandler.dump_traceback_later(SLOW, exit=True)
        trial = Trial(number, chance)
        with contextlib.redirect_stdout(None):
            trial.run(weather)
        for what, holds in (
            ("the bystander changed", trial.pool.is_well),
            ("the switches of the thread stayed on", lambda: switches() == normal),
            ("a lock stayed held", lambda: not any(held())),
            ("operations give something else", is_well),
        ):
            if not holds():
                print(f"after trial {number}: {what}; {normal} was {switches()}", flush=True)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
