"""Parametrizations under PyTorch's older names, `weight_norm` and `spectral_norm` of ``nn.utils``.

The functions are those of `parametrizations`: the tensors that a weight is made from are
``module.parametrizations.weight``, and not ``weight_g``, ``weight_v`` or ``weight_orig``. A state
with such names is loaded.
"""

from __future__ import annotations

from staticflow.nn.module import Module
from staticflow.nn.utils.parametrizations import spectral_norm, weight_norm
from staticflow.nn.utils.parametrize import remove_parametrizations
from staticflow.ops.declaring.foreign import refuses_foreign_in

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """``module``, whose tensor of that name is a parameter again, of the value that it has.

    Raises `ArgumentError` if it is not parametrized.

    >>> import staticflow as sf
    >>> layer = remove_weight_norm(weight_norm(sf.nn.Linear(3, 2)))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    return remove_parametrizations(module, name)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """``module``, whose tensor of that name is a parameter again, of the value that it has.

    Raises `ArgumentError` if it is not parametrized.

    >>> import staticflow as sf
    >>> layer = remove_spectral_norm(spectral_norm(sf.nn.Linear(3, 2)))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    return remove_parametrizations(module, name)


refuses_foreign_in(globals())
