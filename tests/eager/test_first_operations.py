"""The first operations of a process run on the general path, those behind them on the fast one, and
nothing that a program computes tells them apart."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from staticflow.eager.costs import FIRST

TRAIN = """
import hashlib, sys
import numpy as np
import staticflow as sf
from staticflow.eager.mode import EAGER

if sys.argv[1] == "at once":
    EAGER.prepare()
digest, had = hashlib.sha256(), set()
sf.manual_seed(0)
net = sf.nn.Sequential(sf.nn.Linear(5, 7), sf.nn.Tanh(), sf.nn.Linear(7, 3))
opt = sf.optim.Adam(net.parameters(), lr=0.01)
x, y = sf.randn(11, 5), sf.randint(0, 3, (11,))
w = sf.ones(4, 4, requires_grad=True)
for i in range(int(sys.argv[2])):
    opt.zero_grad()
    out = net(x)
    loss = sf.nn.functional.cross_entropy(out, y)
    z = (w[1:] * 0.5).sum(dim=0).view(2, 2).mT + loss.detach()
    z.add_(1.5).mul_(2)
    (loss + (z * z).mean() + out[::2].abs().amax()).backward()
    opt.step()
    for t in (loss, z, w.grad, *(p.grad for p in net.parameters()), *net.parameters()):
        digest.update(t.detach().numpy().tobytes())
    w.grad = None
    had.add(EAGER.forms is not None)
print(digest.hexdigest(), sorted(had), min(EAGER.ran, 10_000))
"""


def run(text: str, *args: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", text, *args], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("steps", [3, 60])
def test_a_run_that_gets_the_fast_path_on_its_way_has_the_same_bits(steps: int) -> None:
    """Views, in-place changes, backward and an optimiser, on either side and across."""
    at_once = run(TRAIN, "at once", str(steps)).split(" ", 1)
    later = run(TRAIN, "later", str(steps)).split(" ", 1)
    assert later[0] == at_once[0]
    assert at_once[1].strip() == "[True] 0"
    if steps == 3:
        assert later[1].startswith("[False]") and int(later[1].split()[-1]) <= FIRST
    else:
        assert later[1].strip() == f"[False, True] {FIRST + 1}"


COMPILE = """
import staticflow as sf
from staticflow.eager.mode import EAGER
from staticflow.runtime.native import NativeModule

tensors = [sf.nn.Parameter(0.1 * sf.randn(8, 8)) for _ in range(10)]
x = sf.placeholder((4, 8), name="x")
loss = sum(((x @ w) ** 2).mean() for w in tensors)
step = sf.compile([x], loss, updates=sf.optim.Adam(tensors, lr=1e-3).minimize(loss))
step(sf.ones(4, 8))
print(EAGER.forms, NativeModule.loads)
"""


def test_a_program_that_makes_parameters_and_compiles_needs_no_fast_path() -> None:
    """Of native code it loads its own, and what all programs share."""
    forms, loads = run(COMPILE).split()
    assert forms == "None"
    assert int(loads) <= 10
