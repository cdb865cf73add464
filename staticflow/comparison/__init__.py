"""One model in both modes: whether they agree, what each costs, from when on compiling pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticflow.comparison.record import Comparison

__all__ = ["compare"]


def compare(
    model: Any,
    inputs: Any = None,
    *,
    loss: Any = None,
    optimizer: Any = None,
    lr: float | None = None,
    steps: int = 100,
    seed: int = 0,
    dtype: Any = "float32",
    quick: bool = False,
    sweep: str | None = None,
    processes: Sequence[int] = (),
) -> Comparison:
    """One model in both modes: whether they compute the same, and what each costs.

    ``model`` is a module, a class of modules, a function that makes one, or ``"FILE.py:NAME"``.
    ``inputs`` is a tuple of arrays, or of texts such as ``"f32[batch=32, 784]"`` and
    ``"i64[batch] < 10"``, whose named sizes stay open. The model is given the first of them, and
    ``loss``, a name or a function, its output and the others. ``optimizer`` is a name such as
    ``"adam"``, with its rate ``lr``, or a function that makes one of the parameters. ``quick``
    leaves out what takes more than a few seconds, such as fresh processes. ``sweep`` says at which
    open sizes, and at which arguments of the model, both modes are timed beside each other:
    ``"batch=1,8,64 width=16,256"``; by default at some batches around the given one. ``processes``,
    such as ``(2, 4)``, says on how many processes of MPI the compiled step is timed, too, each with
    its part of every batch: how much faster they are than one.

    The record has all that is printed; in a notebook it shows itself.

    Raises `ArgumentError` for what does not fit together, and `RankError` for ``processes`` where
    there is no mpirun.

    >>> import staticflow as sf
    >>> net = sf.nn.Linear(3, 2)
    >>> found = sf.compare(net, ("f32[N=4, 3]",), loss="mse", optimizer="sgd", steps=5, quick=True)
    >>> found.agreement.verdict, found.compilations["static"]
    ('they agree', {'N=4': 1, 'N=3': 1, 'N=2': 1})
    """
    from staticflow.comparison.requests import compare_values

    return compare_values(
        model, inputs, loss, optimizer, lr, steps, seed, dtype, quick, sweep, processes
    )
