"""What ``plan-cluster --calibrate`` starts on each process: a program that is compiled for all
processes there are, and called some times."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["main"]

WARM, CALLS = 5, 21


def main(target: str, names: Sequence[str], sizes: Mapping[str, int]) -> None:
    """Print the seconds of a call, the median of some, and what a message costs. All processes are
    along the first of the axes of these names."""
    import staticflow as sf
    from staticflow import distributed
    from staticflow.graph.dim_queries import evaluate_dim, symbols_of
    from staticflow.ops.declaring.communicator import current
    from staticflow.tools.rank_plan import EXAMPLE, load_program

    sf.set_num_threads(1)
    sf.manual_seed(0)
    first, *others = names
    mesh = distributed.mesh(**{first: -1}, **dict.fromkeys(others, 1))
    inputs, outputs, updates = load_program(target, mesh)
    step = sf.compile(inputs, outputs, updates=updates, mesh=mesh)
    rng = np.random.default_rng(0)

    def array(kind: Any) -> np.ndarray[Any, Any]:
        shape = [
            evaluate_dim(d, {s: sizes.get(s.name, EXAMPLE) for s in symbols_of(d)})
            for d in kind.shape
        ]
        is_float = kind.dtype.kind == "f"  # zeros are classes and indices
        given = rng.standard_normal(shape) if is_float else np.zeros(shape)
        return given.astype(kind.dtype.numpy)

    count = len(step._written.names)
    arrays = [array(p.tensor_type) for p in step._written.graph.params[:count]]
    found = []
    for _ in range(WARM + CALLS):
        began = time.perf_counter()
        step(*arrays)
        found.append(time.perf_counter() - began)
    if mesh.rank == 0:
        print(json.dumps([sorted(found[WARM:])[CALLS // 2], current().cost]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), json.loads(sys.argv[3]))
