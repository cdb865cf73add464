"""Tensors and symbols in the patterns of einops; importing this module makes einops know them.

Where einops was imported before staticflow, importing staticflow does it.

>>> import staticflow as sf
>>> import staticflow.einops
>>> from einops import rearrange
>>> rearrange(sf.arange(6), "(row column) -> column row", row=2)
tensor([[0, 3],
        [1, 4],
        [2, 5]])
"""

from __future__ import annotations

try:
    from staticflow.einops.backend import StaticflowBackend
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "einops":
        raise
    raise ModuleNotFoundError(
        'staticflow.einops needs einops; pip install "staticflow[einops]"', name="einops"
    ) from error

__all__ = ["StaticflowBackend"]
