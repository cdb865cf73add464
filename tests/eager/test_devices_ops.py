"""Every op of the table on a stand-in for a GPU: the same values and gradients, and they stay there."""

from __future__ import annotations

import sys
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cupy import fake_cupy, on_gpu
from opinfo import ROWS
from opinfo.core import Sample

import staticflow as sf
from staticflow.autograd import backward
from staticflow.pytree import flatten, map_tree


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    special = SimpleNamespace()
    try:
        import scipy.special as functions

        for name in (
            "erf",
            "erfc",
            "erfcx",
            "erfinv",
            "log_ndtr",
            "ndtr",
            "gammaln",
            "digamma",
            "i0",
            "i0e",
            "i1",
            "i1e",
            "polygamma",
        ):
            setattr(special, name, on_gpu(getattr(functions, name)))
    except ImportError:
        pass
    scipy = SimpleNamespace(special=special)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(scipy=scipy))
    monkeypatch.setitem(sys.modules, "cupyx.scipy", scipy)


def run(info: Any, sample: Sample, device: str) -> tuple[list[Any], list[Any]]:
    """The results and gradients of a sample on a device."""

    def there(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        t = sf.tensor(x, device=device)
        return t.requires_grad_() if info.grad and t.dtype.is_floating else t

    args, kwargs = map_tree(there, (sample.args, dict(sample.kwargs)))
    outs = [t for t in flatten(info.call(*args, **kwargs))[0] if isinstance(t, sf.Tensor)]
    real = [t.sum() for t in outs if t.requires_grad]
    if real:
        backward(real)
    leaves = [t for t in flatten(args)[0] if isinstance(t, sf.Tensor)]
    return outs, [t.grad for t in leaves if t.grad is not None]


@pytest.mark.parametrize("name", list(ROWS))
def test_an_op_gives_the_same_there(name: str) -> None:
    info = ROWS[name]
    dtype = sf.float32 if sf.float32 in info.dtypes else info.dtypes[0]
    for sample in islice(info.samples(dtype, info.grad), 2):
        try:
            found = run(info, sample, "cuda")
        except sf.DTypeError as error:
            if "SimpleNamespace" in str(error):
                pytest.skip("needs scipy, which plays cupyx.scipy")
            raise
        for theirs, ours in zip(found, run(info, sample, "cpu"), strict=True):
            for a, b in zip(theirs, ours, strict=True):
                assert a.device == sf.device("cuda:0")
                np.testing.assert_allclose(
                    a.detach().cpu().numpy().astype("f8"),
                    b.detach().numpy().astype("f8"),
                    rtol=1e-4,
                    atol=1e-5,
                    err_msg=str(sample),
                )
