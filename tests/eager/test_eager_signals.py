"""Handlers of signals may raise wherever Python runs, and what they raise is raised once: eager work
that takes it for an error of operands, and tries another way, loses it."""

import gc
import random
import signal
from collections.abc import Callable, Iterator

import pytest

import staticflow as sf
from staticflow import nn

TIMES = 40

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")

x = sf.ones(8, 8)
w = sf.full((8, 8), 0.5, requires_grad=True)
large = sf.ones(300, 300, requires_grad=True)
index = sf.tensor([0, 1, 2, 3] * 2)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 4))
optimizer = sf.optim.Adam(model.parameters())
compiled = sf.jit(lambda a: (a * 2).tanh().sum())


def train() -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), index).backward()
    optimizer.step()


def in_place() -> None:
    y = x * 1
    y += 1
    y.mul_(2)
    y[0] = 3


def several() -> None:
    y = w * 1
    (y.max(0)[0].sum() + y.sort(1)[0].sum() + y.topk(3)[0].sum()).backward()


WORK: dict[str, Callable[[], object]] = {
    "numbers": lambda: x * random.random(),
    "backward": lambda: ((x @ w + w[0]).tanh() * 2).sum().backward(),
    "train": train,
    "in place": in_place,
    "views": lambda: x.T[0].reshape(2, 4).unsqueeze(0),
    "several results": several,
    "twice": lambda: sf.grad(sf.grad((w**3).sum(), w, create_graph=True).sum(), w),
    "large": lambda: (large.sigmoid() * 3).sum().backward(),
    "indices": lambda: (w[index] + w.gather(0, index[None])).sum().backward(),
    "compiled": lambda: compiled(x),
}


@pytest.fixture
def no_callbacks() -> Iterator[None]:
    """No one is called when garbage is collected: Python drops what a handler raises inside of such a call,
    and other libraries (hypothesis, JAX) ask for one."""
    before = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = before


@pytest.mark.usefixtures("no_callbacks")
@pytest.mark.parametrize("name", WORK)
def test_what_a_handler_raises_arrives(name: str) -> None:
    work = WORK[name]
    came: list[int] = []

    class Stop(Exception):
        pass

    def stop(number: int, _: object) -> None:
        came.append(number)
        raise Stop

    for _ in range(5):  # some calls are remembered
        work()
    before = signal.signal(signal.SIGALRM, stop)
    arrived = 0
    try:
        for _ in range(TIMES):
            came.clear()
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-4, 2e-3))
                while not came:
                    work()
            except Stop:
                arrived += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert arrived == TIMES
    work()
