"""Programs on several processes: meshes of them, and what they do together.

`mesh` names the processes, which MPI carries messages between (`mpi`), and NCCL arrays of GPUs
(`nccl`, which has never run), or, in tests, threads of one process (`simulated`). `collectives` are
ops, in either mode.
`sharding` says of graphs of whole tensors what is split, and ``compile(..., mesh=mesh)`` finds the
collectives; `states` splits the memory of what optimisers keep and train, in `parts`, and
`pipelines` has the stages of a network on processes of their own.
"""

from staticflow.distributed.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    exchange,
    reduce_scatter,
)
from staticflow.distributed.mesh import Axis, Mesh, mesh
from staticflow.distributed.pipelines import pipeline
from staticflow.distributed.sharding import shard
from staticflow.distributed.simulated import simulate
from staticflow.distributed.states import split_parameters, split_state

__all__ = [
    "Axis", "Mesh", "all_gather", "all_reduce", "all_to_all", "broadcast", "exchange",
    "mesh", "pipeline", "reduce_scatter", "shard", "simulate", "split_parameters",
    "split_state",
]  # fmt: skip
