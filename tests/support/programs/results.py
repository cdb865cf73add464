"""What a program gives, as JSON that is the same of PyTorch where the program behaves the same."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import staticflow as torch


def programs_of(*modules: Any) -> dict[str, Callable[..., None]]:
    """The programs in these modules, which are what takes ``log`` and ``refused``."""
    functions = [f for m in modules for f in vars(m).values() if hasattr(f, "__code__")]
    return {f.__name__: f for f in functions if "refused" in f.__code__.co_varnames[:2]}


def results_of(program: Callable[..., None]) -> list[Any]:
    """What ``program(log, refused)`` logs: of an error the classes of Python that it is of."""
    found: list[Any] = []

    def log(*values: Any) -> None:
        found.append([described(v) for v in values])

    def refused(fn: Callable[[], Any]) -> None:
        try:
            found.append(["given", described(fn())])
        except Exception as error:
            own = [c.__name__ for c in type(error).__mro__ if hasattr(builtins, c.__name__)]
            found.append(["refused", *own])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program(log, refused)
    return found


def described(value: Any) -> Any:
    """Of a tensor its dtype, shape, whether it has a history, and its numbers."""
    if isinstance(value, torch.Tensor):
        numbers = np.asarray(value.detach().double().tolist(), float).reshape(-1)
        recorded = "recorded" if value.requires_grad else "plain"
        dtype = repr(value.dtype).split(".")[-1]
        return [dtype, list(value.shape), recorded, *(float(f"{n:.7g}") for n in numbers)]
    if isinstance(value, dict):
        return {str(k): described(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [described(v) for v in value]
    if isinstance(value, bool | int | float | str | None):
        return value
    raise TypeError(f"a program logs tensors and plain values, not {type(value).__name__}")
