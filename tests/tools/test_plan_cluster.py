"""The command that says what a process of a mesh would hold and send."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from staticflow.tools.cli import main

PROGRAM = """
import staticflow as sf
from staticflow import distributed, nn

def train(mesh):
    net = nn.Linear(64, 128)
    x = sf.placeholder((None, 64), name="x")
    loss = (net(distributed.shard(x, "data", None)) ** 2).mean()
    optimiser = sf.optim.Adam(net.parameters())
    distributed.split_state(optimiser, mesh.axis("data"))
    return [x], loss, optimiser.minimize(loss)

def wrong(mesh):
    return 3
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_the_plan_of_a_thousand_processes(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan-cluster", f"{target}:train", "--mesh", "data=500,model=2"]
    assert main([*arguments, "--sizes", "x_0=4000", "--latency", "10", "--bandwidth", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("1000, mesh(data=500, model=2)")
    assert "of 97." in lines[1] and "on each" in lines[1]  # 3 times 32.5 KiB
    (scatter,) = [line for line in lines if "begin reduce_scatter" in line]
    # of 500 parts of a row each, of which 128 are not empty, 499 are sent, of 64 floats
    assert "f32[500, 64]" in scatter and "125 KiB" in scatter and "[0] of [500, 2]" in scatter
    assert "at x_0 = 4000" in lines
    assert "10.0 µs each, and 954 MiB a second, as was given" in lines[-2]


def test_the_least_time_of_a_call_is_that_of_kernels_and_messages(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the kernels do is counted of the plan: a product forward and one backward, of 8 rows."""

    def last_line(*options: str) -> str:
        arguments = ["plan-cluster", f"{target}:train", "--mesh", "data=4", "--sizes", "x_0=32"]
        assert main([*arguments, *options]) == 0
        return capsys.readouterr().out.splitlines()[-1]

    slow = last_line("--flops", "0.001", "--memory", "1000", "--latency", "0", "--bandwidth", "1")
    found = re.search(r"kernels (\d+) kFLOP .* at least (\d+) ms; with all messages (\d+) ms", slow)
    assert found is not None, slow
    assert float(found[1]) >= 2 * (2 * 8 * 64 * 128) / 1000
    assert float(found[2]) == pytest.approx(float(found[1]), rel=0.02)  # a million a second
    assert found[3] == found[2]
    assert "at least" in last_line()  # of what this machine reaches


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("train", ["--mesh", "data=x"], "--mesh has 'data=x'"),
        ("train", ["--mesh", "data=2", "--sizes", "y=3"], "--sizes has y; the sizes are x_0"),
        ("train", ["--mesh", "other=2"], "mesh(other=2) has no 'data', only other"),
        ("missing", ["--mesh", "data=2"], "names no function"),
        ("wrong", ["--mesh", "data=2"], "wrong(mesh) gives int"),
    ],
)
def test_mistakes_are_told(
    target: str, name: str, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan-cluster", f"{target}:{name}", *options]) != 0
    assert says in capsys.readouterr().err
