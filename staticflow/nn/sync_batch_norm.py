"""The batch norm of programs whose collectives are by hand."""

from __future__ import annotations

import math
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.normalization import normalize_together
from staticflow.nn.module import Module
from staticflow.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm
from staticflow.ops.declaring.communicator import current
from staticflow.ops.symbols.effect import count

__all__ = ["SyncBatchNorm"]

_PARAMETERS = "weight", "bias"
_BUFFERS = "running_mean", "running_var", "num_batches_tracked"


class SyncBatchNorm(_BatchNorm):
    """Batch norm of (N, C, ...) by the statistics of the rows of all processes, each of which is
    given its own: eagerly, and in programs whose collectives are by hand.

    ``process_group`` is the mesh whose processes these are, or an axis of it; all there are if it
    is None. The processes may have different numbers of rows. They add up means and variances in
    two messages to each other, and their gradients in two. Alone, and in evaluation, it is
    `BatchNorm1d`. A program that is compiled with ``mesh=`` is written in whole tensors, so there
    `BatchNorm1d` has the statistics of all rows.

    Raises `DTypeError` for a ``process_group`` that is no mesh and no axis.

    >>> import staticflow as sf
    >>> def normalize():
    ...     mesh = sf.distributed.mesh(data=-1)
    ...     x = sf.tensor([[1.0], [3.0]]) + 4 * mesh.rank
    ...     return SyncBatchNorm(1, process_group=mesh)(x).detach().flatten().tolist()
    >>> [[round(v, 2) for v in found] for found in sf.distributed.simulate(normalize, 2)]
    [[-1.34, -0.45], [0.45, 1.34]]
    """

    ndims = (2, 3, 4, 5)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = _check_group(process_group)

    def forward(self, input: Any) -> Any:
        """``input`` (N, num_features, ...) with each channel normalised."""
        mesh, axes = self.process_group.over if self.process_group else ((current().size,), (0,))
        is_alone = math.prod(mesh[a] for a in axes) == 1
        if is_alone or not (self.training or self.running_mean is None):
            return super().forward(input)
        self._check(input)
        used = not self.training or self.track_running_stats
        running = (self.running_mean, self.running_var) if used else (None, None)
        out = normalize_together(
            input, running, self.weight, self.bias, {"mesh": mesh, "axes": axes},
            self._momentum(input), self.eps,
        )  # fmt: skip
        return count(out, self.num_batches_tracked) if self._counts() else out

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """``module``, in which each batch norm is one of this class, with the same parameters and
        buffers. If it is a batch norm itself, the new one.

        >>> import staticflow as sf
        >>> net = sf.nn.Sequential(sf.nn.Linear(2, 3), sf.nn.BatchNorm1d(3))
        >>> type(SyncBatchNorm.convert_sync_batchnorm(net)[1]).__name__
        'SyncBatchNorm'
        """
        if isinstance(module, BatchNorm1d | BatchNorm2d | BatchNorm3d):
            found = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            for name in (*_PARAMETERS, *_BUFFERS):
                setattr(found, name, getattr(module, name))
            return found.train(module.training)
        for name, child in module.named_children():
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module


def _check_group(group: Any) -> Any:
    if group is not None and not isinstance(getattr(group, "over", None), tuple):
        raise DTypeError(
            f"SyncBatchNorm: process_group is {with_article(type(group))}; it must be a mesh, or "
            f'an axis of one, as mesh.axis("data"), at {format_locs(here())}'
        )
    return group
