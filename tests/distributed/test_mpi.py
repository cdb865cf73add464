"""Collectives and faults of real processes, by Open MPI and mpi4py."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from staticflow.tools import calibration
from staticflow.tools.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "data_parallel.py"
MISSING = "several processes talk by MPI: install staticflow[distributed]"
pytest.importorskip("mpi4py", reason=MISSING)
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
if shutil.which("mpirun", path=PATH) is None:
    pytest.skip(MISSING, allow_module_level=True)


def launch(
    count: int, script: str, folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(
        "import staticflow as sf\nfrom staticflow import distributed\n" + textwrap.dedent(script)
    )
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    return subprocess.run(
        [sys.executable, "-m", "staticflow", "launch", "-n", str(count), str(path), *arguments],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip


COLLECTIVES = """
    import sys
    import numpy as np
    mesh = distributed.mesh(data=-1)
    n, r = mesh.size, mesh.rank
    x = sf.tensor(np.arange(12.0).reshape(12, 1) + r, requires_grad=True)
    total = distributed.all_reduce(x, mesh)
    parts = distributed.reduce_scatter(x, mesh)
    assert np.array_equal(distributed.all_gather(parts, mesh).detach(), total.detach())
    turned = distributed.all_to_all(x, mesh, 0, 1)
    assert turned.shape == (12 // n, n)
    assert np.array_equal(distributed.all_to_all(turned, mesh, 1, 0).detach(), x.detach())
    assert distributed.broadcast(sf.tensor(r), mesh, n - 1).item() == n - 1
    ring = [(i, (i + 1) % n) for i in range(n)]
    assert distributed.exchange(sf.tensor(r), mesh, ring).item() == (r - 1) % n
    (total * (r + 1)).sum().backward()
    assert (x.grad.numpy() == n * (n + 1) / 2).all()
    large = sf.placeholder((300_000,), name="large")
    w = sf.zeros(300_000)
    mean = sf.fori_loop(0, 3, lambda i, c: distributed.all_reduce(c, mesh, "mean"), large)
    step = sf.compile([large], mean, updates={w: w + mean})
    for _ in range(3):
        step(sf.full((300_000,), float(r)))
    assert (w.numpy() == np.float32(3 * (n - 1) / 2)).all()
    print("rank", r, "of", n, "is done", *sys.argv[1:], flush=True)
"""


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_collectives_of_processes(count: int, tmp_path: Path) -> None:
    run = launch(count, COLLECTIVES, tmp_path, "--lr", "3")
    assert run.returncode == 0, run.stderr
    expected = [f"rank {r} of {count} is done --lr 3" for r in range(count)]
    assert sorted(run.stdout.split("\n")[:-1]) == expected


FAULTS: dict[str, tuple[str, ...]] = {
    "raises": ("raise ValueError('no data')", "rank 1 of 3 ended by ValueError: no data"),
    "leaves": ("sys.exit(0)", "rank 1 of 3 has come to the end of its program"),
    "is killed": ("os.kill(os.getpid(), 9)", "process rank 1 with"),
    "does something else": (
        "distributed.all_gather(sf.ones(2), mesh)",
        "at exchange 2, all_gather of f32[2]",
    ),
    "has no memory": ("np.ones(1 << 50)", "rank 1 of 3 ended by MemoryError: Unable to allocate"),
    "has a loader that fails in its thread": (
        "list(sf.utils.data.DataLoader(Broken(), num_workers=1))",
        "rank 1 of 3 ended by OSError: the disk is gone",
    ),
    "leaves with a message": (
        "sys.exit('no more data')",
        "no more data", "rank 1 of 3 has come to the end of its program",
    ),
    "ends without a word": ("os._exit(3)", ",1] Exit code: 3"),
    "is asked to end": ("os.kill(os.getpid(), 15)", "process rank 1 with", "signal 15"),
    "is interrupted": ("raise KeyboardInterrupt", "rank 1 of 3 ended by KeyboardInterrupt; all"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_rank_that_fails_ends_all(name: str, tmp_path: Path) -> None:
    """With its reason, while the others wait for it; the time limit of a launch is all that says that
    nobody hangs."""
    fault, *says = FAULTS[name]
    run: Any = launch(
        3,
        f"""
        import os, sys
        import numpy as np
        class Broken(sf.utils.data.Dataset):
            def __len__(self): return 3
            def __getitem__(self, index): raise OSError("the disk is gone")
        mesh = distributed.mesh(data=-1)
        w, x = sf.zeros(2), sf.placeholder((2,), name="x")
        step = sf.compile([x], [], updates={{w: w + distributed.all_reduce(x, mesh)}})
        for i in range(50):
            if i == 2 and mesh.rank == 1:
                {fault}
            step(sf.ones(2))
        print("done")
        """,
        tmp_path,
    )
    assert run.returncode != 0
    for text in says:
        assert text in " ".join(run.stderr.split())
    assert "done" not in run.stdout
    assert run.stderr.count("Traceback") <= 1  # also where all find that one is not there
    assert run.stderr.count("all ranks end") <= 1


def test_a_rank_that_is_stopped_for_a_while_or_ends_early_ends_nobody(tmp_path: Path) -> None:
    """The others wait for the first at an exchange, and for the second nowhere; it waits for them at
    the end, whatever the limit is of other waiting."""
    script = """
        import os, signal, subprocess, time
        from staticflow.config import config
        mesh = distributed.mesh(data=-1)
        total = 0.0
        for i in range(5):
            if i == 2 and mesh.rank == 1:
                subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {os.getpid()}"])
                os.kill(os.getpid(), signal.SIGSTOP)
            total += distributed.all_reduce(sf.ones(2), mesh).sum().item()
        config.change(wait_limit=1).__enter__()
        if mesh.rank != 1:
            time.sleep(2)
        print("rank", mesh.rank, "has", total, flush=True)
    """
    run = launch(3, script, tmp_path)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.split("\n")[:-1]) == [f"rank {r} has 30.0" for r in range(3)]
    assert "RankError" not in run.stderr


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_rank_that_ends_without_a_mesh_ends_all(seconds: float, tmp_path: Path) -> None:
    """Before any other has come to it, which these see, or while they wait in MPI's beginning, which
    mpirun sees."""
    script = f"""
        import os, sys, time
        from staticflow.distributed import siblings
        siblings.STARTING = 1
        if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
            sys.exit(0)
        time.sleep({seconds})
        distributed.mesh(data=-1)
        print("has a mesh")
    """
    run = launch(3, script, tmp_path)
    assert run.returncode != 0 and not run.stdout
    told = "RankError: mesh: rank 1 of 3 has ended without making a mesh" in run.stderr
    assert told or (
        "process rank 1 with" in run.stderr and 'did not call "init" before exiting' in run.stderr
    )


def test_ranks_wait_for_one_that_they_cannot_see_as_long_as_the_limit_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of another machine. Where MPI begins no Python runs, and mpirun lets a process end that
    has not begun it, if none has yet; else it says so at once."""
    monkeypatch.setenv("STATICFLOW_WAIT_LIMIT", "1")
    script = """
        import os, sys, time
        from staticflow.distributed import mpi, siblings
        mpi.STARTING, siblings.DAEMONS = 1, ()
        if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
            sys.exit(0)
        time.sleep(1)
        distributed.mesh(data=-1)
        print("has a mesh")
    """
    run = launch(2, script, tmp_path)
    assert run.returncode != 0 and not run.stdout
    waited = "Timeout (0:00:02)!" in run.stderr and "in mesh" in run.stderr
    assert waited or 'did not call "init" before exiting' in run.stderr


def test_ranks_that_wait_in_a_circle_say_what_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATICFLOW_WAIT_LIMIT", "1")
    script = """
        mesh = distributed.mesh(a=2, b=2)
        for name in ("a", "b") if mesh.rank in (0, 3) else ("b", "a"):
            distributed.all_reduce(sf.ones(2), mesh.axis(name))
    """
    run = launch(4, script, tmp_path)
    assert run.returncode != 0
    assert "RankError" in run.stderr and "has waited 1 s for rank" in run.stderr
    said = " ".join(run.stderr.split())
    for rank, of in ((0, 2), (1, 0), (2, 3), (3, 1)):
        assert f"rank {rank} of 4 waits for rank {of} at exchange 0" in said or (
            f"rank {rank} of 4 has waited 1 s for rank {of} at exchange 0" in said
        )


@pytest.mark.parametrize(
    ("count", "steps", "dtype", "error"),
    [(2, 10, "float32", 1e-5), (4, 100, "float64", 1e-12)],
)
def test_lenet_on_processes_has_the_losses_of_one(
    count: int, steps: int, dtype: str, error: float, tmp_path: Path
) -> None:
    """What another order of sums rounds off grows as this trains in float32; in float64 there is
    nothing to grow in a hundred steps."""
    script = f"""
        import json, runpy
        losses = runpy.run_path({str(EXAMPLE)!r})["main"]({steps}, {dtype!r})
        print("losses", json.dumps(losses), flush=True)
    """
    run = launch(count, script, tmp_path)
    assert run.returncode == 0, run.stderr
    found = [json.loads(x[7:]) for x in run.stdout.splitlines() if x.startswith("losses")]
    assert len(found) == count
    alone = runpy.run_path(str(EXAMPLE))["main"](steps, dtype)
    for losses in found:
        assert losses == pytest.approx(alone, rel=error)


RESUMED = """
    import os, sys
    import numpy as np
    path, killed = sys.argv[1], int(sys.argv[2])
    mesh = distributed.mesh(data=-1)
    sf.manual_seed(0)
    net = sf.nn.Linear(64, 48, dtype=sf.float64)
    optimizer = sf.optim.Adam(net.parameters(), lr=1e-2)
    if mesh.size > 1:
        distributed.split_parameters(optimizer, mesh.axis("data"))
    first = 0
    if os.path.exists(path):
        state = sf.load(path)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["steps"]
    x = sf.placeholder((None, 64), sf.float64, name="x")
    loss = (net(distributed.shard(x, "data", None)) ** 2).mean()
    step = sf.compile([x], loss, updates=optimizer.minimize(loss), mesh=mesh)
    for i in range(first, 8):
        found = step(np.random.default_rng(i).standard_normal((6, 64)))
        if i == killed and mesh.rank == 1:
            os.kill(os.getpid(), 9)
        state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "steps": i + 1}
        if mesh.rank == 0:
            sf.save(state, path)
    if mesh.rank == 0:
        print("from", first, "loss", found.item().hex(), flush=True)
"""


@pytest.mark.parametrize(
    ("name", "count", "arguments"),
    [("tensor_parallel", 4, (20, "float64", 1)), ("pipeline", 2, (20,))],
)
def test_examples_in_parts_have_the_losses_of_one(
    name: str, count: int, arguments: tuple[Any, ...], tmp_path: Path
) -> None:
    """A transformer, of one layer, in parts of its heads, and stages on processes of their own."""
    example = EXAMPLE.with_name(f"{name}.py")
    script = f"""
        import json, runpy
        losses = runpy.run_path({str(example)!r})["main"](*{arguments!r})
        print("losses", json.dumps(losses), flush=True)
    """
    run = launch(count, script, tmp_path)
    assert run.returncode == 0, run.stderr
    found = [json.loads(x[7:]) for x in run.stdout.splitlines() if x.startswith("losses")]
    assert len(found) == count
    alone = runpy.run_path(str(example))["main"](*arguments)
    for losses in found:
        assert losses == pytest.approx(alone, rel=1e-12)


def test_training_goes_on_from_a_state_file_after_a_rank_was_killed(tmp_path: Path) -> None:
    """With another number of processes, and with the losses of a training that nobody killed."""
    pytest.importorskip("safetensors")
    path = str(tmp_path / "state.safetensors")
    alone = launch(1, RESUMED, tmp_path, str(tmp_path / "other.safetensors"), "-1")
    assert alone.returncode == 0, alone.stderr
    killed = launch(3, RESUMED, tmp_path, path, "5")
    assert killed.returncode != 0 and "loss" not in killed.stdout
    resumed = launch(2, RESUMED, tmp_path, path, "-1")
    assert resumed.returncode == 0, resumed.stderr
    _, first, _, loss = resumed.stdout.split()
    assert first == "5"  # the step in which it was killed is done again
    assert float.fromhex(loss) == pytest.approx(float.fromhex(alone.stdout.split()[-1]), rel=1e-12)


def test_ranks_that_seed_otherwise_are_told(tmp_path: Path) -> None:
    script = """
        mesh = distributed.mesh(data=-1)
        sf.manual_seed(mesh.rank)
        x = sf.placeholder((None, 3), name="x")
        sf.compile([x], sf.nn.Linear(3, 2)(distributed.shard(x, "data", None)), mesh=mesh)
    """
    run = launch(2, script, tmp_path)
    assert run.returncode != 0
    assert "seed all ranks alike" in run.stderr and "weight" in run.stderr


def test_a_program_is_measured_on_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``plan-cluster --calibrate`` does: what a call takes, and what a message and its bytes do."""
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent("""
        import staticflow as sf
        from staticflow import distributed

        def train(mesh):
            w = sf.nn.Parameter(sf.ones(64, 32))
            x = sf.placeholder((None, 64), name="x")
            loss = ((distributed.shard(x, "data", None) @ w) ** 2).mean()
            return [x], loss, sf.optim.SGD([w], lr=0.1).minimize(loss)
    """)
    )
    seconds, cost = calibration.measure_call(f"{path}:train", ["data"], {"x_0": 512}, 2)
    assert cost is not None and cost[0] > 0 and cost[1] > 0 and 0 < seconds < 10
    arguments = ["plan-cluster", f"{path}:train", "--mesh", "data=8", "--calibrate", "1,2"]
    assert main([*arguments, "--sizes", "x_0=512"]) == 0
    *_, one, two, last = capsys.readouterr().out.splitlines()
    assert one.startswith("1 ") and "it gives the factor" in one
    assert re.fullmatch(r"2 .*[-+]\d+%", two) and "on 8 processes" in last
