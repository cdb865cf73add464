"""A step of training on two processes of one thread each, against PyTorch's DDP with gloo, and
against one process of two threads.

    python benchmarks/data_parallel.py

Every contestant trains one net from the same batches by gradient descent, and says how long the
median of some steps took. What is measured is what the processes have to do with each other: the
sums of gradients, and how much of them the kernels hide.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

STEPS, WARM = 40, 8
Array = np.ndarray[Any, Any]


# -- the nets ------------------------------------------------------------------------------------


def perceptron(nn: Any, width: int = 1024) -> Any:
    """1.9 million parameters, 7 MB of gradients a step."""
    return nn.Sequential(
        nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


def lenet(nn: Any) -> Any:
    """Convolutions: 62 thousand parameters, a quarter of a MB of gradients a step."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def transformer(nn: Any, width: int = 64) -> Any:
    """Two layers of a transformer: a hundred thousand parameters, in many small tensors."""

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (
                nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
                for _ in range(2)
            )
            self.out = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.second(self.first(x)).mean(1))

    return Net()


NETS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int]] = {
    "perceptron": (perceptron, (784,), 256),
    "lenet": (lenet, (1, 32, 32), 128),
    "transformer": (transformer, (32, 64), 64),
}


def batches(name: str) -> tuple[Array, Array]:
    """Batches of all processes together."""
    _, shape, count = NETS[name]
    rng = np.random.default_rng(0)
    images = rng.standard_normal((8, count, *shape)).astype(np.float32)
    return images, rng.integers(0, 10, (8, count))


def seconds_of(step: Callable[[Array, Array], float], name: str, part: slice) -> float:
    """The median of the steps."""
    images, labels = batches(name)
    found = []
    for i in range(STEPS + WARM):
        began = time.perf_counter()
        step(images[i % 8][part], labels[i % 8][part])
        found.append(time.perf_counter() - began)
    return sorted(found[WARM:])[STEPS // 2]


# -- what a process does -------------------------------------------------------------------------


def run_staticflow(name: str, threads: int) -> None:
    """One of the processes of a mesh, which is given whole batches."""
    import staticflow as sf
    from staticflow import distributed
    from staticflow.nn import functional as F

    sf.set_num_threads(threads)
    mesh = distributed.mesh(data=-1)
    sf.manual_seed(0)
    make, shape, count = NETS[name]
    net = make(sf.nn)
    x, y = sf.placeholder((count, *shape), name="x"), sf.placeholder((count,), sf.int64, name="y")
    rows = distributed.shard(x, "data", *(None,) * len(shape))
    loss = F.cross_entropy(net(rows), distributed.shard(y, "data"))
    updates = sf.optim.SGD(net.parameters(), lr=0.01).minimize(loss)
    step = sf.compile([x, y], loss, updates=updates, mesh=mesh)
    seconds = seconds_of(lambda *batch: float(step(*batch)), name, slice(None))
    if mesh.rank == 0:
        print(seconds)


def run_torch(name: str, threads: int) -> None:
    """One of the processes of DDP, which is given its part of a batch; alone, all of it."""
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    make, _, count = NETS[name]
    net = make(torch.nn)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        distributed.init_process_group("gloo", rank=rank, world_size=size)
        net = DistributedDataParallel(net)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(images: Array, labels: Array) -> float:
        optimiser.zero_grad()
        scores = net(torch.from_numpy(images))
        loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels))
        loss.backward()
        optimiser.step()
        return loss.item()

    part = count // size
    seconds = seconds_of(step, name, slice(rank * part, (rank + 1) * part))
    if rank == 0:
        print(seconds)
    if size > 1:
        distributed.destroy_process_group()


# -- several processes ---------------------------------------------------------------------------


def launch_mesh(name: str) -> str:
    """Two processes of one thread, by mpirun."""
    command = [sys.executable, "-m", "staticflow", "launch", "-n", "2", __file__]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(
        [*command, "staticflow", name, "1"], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout.split()[-1]


def launch_ddp(name: str) -> str:
    """Two processes of one thread, which meet at a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    at = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "torch", name, "1"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, **at, "RANK": str(rank)},
        )
        for rank in range(2)
    ]  # fmt: skip
    texts = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError("a process of DDP failed")
    return texts[0].split()[-1]


ROLES: dict[str, Callable[[str, int], None]] = {
    "staticflow": run_staticflow,
    "torch": run_torch,
    "mesh": lambda name, threads: print(launch_mesh(name)),
    "ddp": lambda name, threads: print(launch_ddp(name)),
}


def child(role: str, name: str, threads: int) -> tuple[str, dict[str, str]]:
    """The text of a process that plays a role."""
    text = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, {__file__!r}, "
    return text + f"{role!r}, {name!r}, {str(threads)!r}]).returncode)", {}


CONTESTANTS = {
    "staticflow, 2 processes": ("mesh", 1),
    "staticflow, 2 threads": ("staticflow", 2),
    "PyTorch DDP, 2 processes": ("ddp", 1),
    "PyTorch, 2 threads": ("torch", 2),
}


def main() -> None:
    """Play a role, or measure all."""
    if len(sys.argv) > 2 and sys.argv[1] in ROLES:
        ROLES[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
        return
    from processes import main_of_processes

    tables = {
        f"a step of the {name}, of {NETS[name][2]} rows": {
            title: functools.partial(child, role, name, threads)
            for title, (role, threads) in CONTESTANTS.items()
        }
        for name in NETS
    }
    main_of_processes(__doc__ or "", tables, most=3)


if __name__ == "__main__":
    Path(__file__)
    main()
