"""The command that says what a process of a mesh would hold and send."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from staticflow.measure.devices import DEVICES
from staticflow.tools import calibration
from staticflow.tools.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "distribution.md"

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
    assert "10.0 µs each, and 954 MiB a second, as was given" in "\n".join(lines)


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
        ("train", ["--mesh", "data=4,data=2"], "--mesh has 'data' twice; give it once"),
        ("train", ["--mesh", "data=2", "--sizes", "y=3"], "--sizes has y; the sizes are x_0"),
        ("train", ["--mesh", "other=2"], "mesh(other=2) has no 'data', only other"),
        ("missing", ["--mesh", "data=2"], "names no function"),
        ("wrong", ["--mesh", "data=2"], "wrong(mesh) gives int"),
        ("train", ["--mesh", "data=2", "--device", "B1"], "--device is B1; there are A100, H100"),
        ("train", ["--mesh", "data=2", "--calibrate", "1,x"], "--calibrate is 1,x; it has numbers"),
        (
            "train",
            ["--mesh", "data=2", "--calibrate", "1", "--flops", "1"],
            "leave one of these out",
        ),
    ],
)
def test_mistakes_are_told(
    target: str, name: str, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan-cluster", f"{target}:{name}", *options]) != 0
    assert says in capsys.readouterr().err


def test_the_page_says_what_the_tool_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a thousand processes, and of eight and 512 in its text."""
    section = PAGE.read_text().partition("## A thousand processes")[2].partition("\n## ")[0]
    program, block = re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)[:2]
    (tmp_path / "perceptron.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    command, _, wanted = block.replace("\\\n", "").partition("\n")
    words = shlex.split(command.removeprefix("$ python -m staticflow "))

    def plan(processes: int) -> str:
        assert main([w.replace("data=1000", f"data={processes}") for w in words]) == 0
        return capsys.readouterr().out

    shown = plan(1000)
    assert doctest.OutputChecker().check_output(wanted, shown, doctest.ELLIPSIS), shown
    eight = plan(8)
    assert "in 49 messages a call" in eight and "about 2.28 ms of messages" in eight
    assert "at least 131 ms" in eight
    for text in ("49 messages and 2.3 ms, and 131 ms", "999 for a collective", "20 ms of waiting"):
        assert text in section
    sent = [float(re.findall(r"sends ([\d.]+) MiB", p)[0]) for p in (plan(512), shown)]
    assert sent[0] == pytest.approx(sent[1] / 2, rel=0.03)


def test_a_device_has_the_rates_of_its_data_sheet(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan-cluster", f"{target}:train", "--mesh", "data=4", "--latency", "0"]

    def text(*options: str) -> str:
        assert main([*arguments, *options]) == 0
        return capsys.readouterr().out

    for name, device in DEVICES.items():
        rates = device.flops_per_second, device.bytes_per_second, device.sent_per_second
        flops, memory, sent = (f"{rate / 1e9}" for rate in rates)
        by_name = text("--device", name)
        by_hand = text("--flops", flops, "--memory", memory, "--bandwidth", sent)
        assert by_name.splitlines()[-1] == by_hand.splitlines()[-1]
        assert f"{device.name}: " in by_name and "by its data sheet" in by_name
        assert "they fit" in by_name
    huge = text("--device", "A100", "--sizes", "x_0=4000000000")
    assert "GiB of 74.5 GiB: too much" in huge


def test_what_was_measured_is_beside_what_was_predicted(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first number of processes gives the factor, which predicts the others: kernels by the
    share of a process in the processors, and messages."""
    seconds = {1: (2e-3, None), 2: (1.5e-3, (1e-4, 0.0)), 8: (9e-3, (0.0, 0.0))}
    monkeypatch.setattr(calibration, "measure_call", lambda *given: seconds[given[-1]])
    monkeypatch.setattr(calibration, "usable_processors", lambda: 2)
    arguments = ["plan-cluster", f"{target}:train", "--mesh", "data=4", "--sizes", "x_0=64"]
    assert main([*arguments, "--calibrate", "8,1,2"]) == 0
    *_, head, one, two, eight, last = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["processes", "kernels", "at"]
    assert "none: it gives the factor" in one and "2.00 ms" in one
    assert eight.startswith("8 on 2 processors")
    measured, error = 1.5e-3, int(two.split()[-1].rstrip("%")) / 100
    predicted = re.findall(r"([\d.]+) (ms|µs)", two)[-1]
    expected = float(predicted[0]) * {"ms": 1e-3, "µs": 1e-6}[predicted[1]] / measured - 1
    assert error == pytest.approx(expected, abs=0.01)
    worst = max(abs(int(row.split()[-1].rstrip("%"))) for row in (two, eight))
    assert f"off by up to {worst}% here" in last


def test_a_program_is_run_to_be_measured(target: str) -> None:
    """On one process, which needs no MPI; those of several are measured in test_mpi.py."""
    seconds, cost = calibration.measure_call(f"{target}:train", ["data"], {"x_0": 8}, 1)
    assert 0 < seconds < 60 and cost is None
    with pytest.raises(calibration.RankError, match=r"failed on 1 processes: .*wrong"):
        calibration.measure_call(f"{target}:wrong", ["data"], {}, 1)
