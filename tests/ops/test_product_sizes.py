"""Products whose sizes do not fit are refused whatever kernel, or function of NumPy, would take them:
one of 1 must not stretch over the elements that are added up."""

from __future__ import annotations

import itertools

import pytest

import staticflow as sf
from staticflow.errors import StaticflowError

F = sf.nn.functional
SIZES = (0, 1, 2, 8, 65)

PRODUCTS = {
    "linear": lambda of, m, k, j, n: F.linear(of(m, k), of(n, j), of(n)),
    "linear without bias": lambda of, m, k, j, n: F.linear(of(m, k), of(n, j)),
    "linear of a vector": lambda of, m, k, j, n: F.linear(of(k), of(n, j), of(n)),
    "linear of three dims": lambda of, m, k, j, n: F.linear(of(2, m, k), of(n, j), of(n)),
    "matmul": lambda of, m, k, j, n: of(m, k) @ of(j, n),
    "matmul of batches": lambda of, m, k, j, n: of(3, m, k) @ of(3, j, n),
    "matmul of a transpose": lambda of, m, k, j, n: of(m, k) @ of(n, j).t(),
    "mv": lambda of, m, k, j, n: sf.mv(of(m, k), of(j)),
    "addmm": lambda of, m, k, j, n: sf.addmm(of(m, n), of(m, k), of(j, n)),
    "bmm": lambda of, m, k, j, n: sf.bmm(of(k, m, 2), of(j, 2, n)),
    "baddbmm": lambda of, m, k, j, n: sf.baddbmm(of(m, n), of(k, m, 2), of(j, 2, n)),
    "addbmm": lambda of, m, k, j, n: sf.addbmm(of(m, n), of(k, m, 2), of(j, 2, n)),
    "bias": lambda of, m, k, j, n: F.linear(of(m, n), of(k, n), of(j)),
    "addmv": lambda of, m, k, j, n: sf.addmv(of(k), of(j, n), of(n)),
    "addr": lambda of, m, k, j, n: sf.addr(of(k, n), of(j), of(n)),
}  # fmt: skip
"""Functions of tensors of which ``k`` and ``j`` must be equal."""

STRETCHED = frozenset({"bias", "addmv", "addr"})
"""Of which what is added may be stretched: the first size may be 1, or the second of ``bias``."""


@pytest.mark.parametrize("is_jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_sizes_that_do_not_fit_are_refused(name: str, is_jit: bool) -> None:
    sizes = SIZES[1::2] if is_jit else SIZES
    taken = []
    for m, k, j, n in itertools.product(sizes, repeat=4):
        stretched = name in STRETCHED and (j if name == "bias" else k) == 1
        if k == j or stretched:
            continue

        given: list[sf.Tensor] = []

        def record(*shape: int, given: list[sf.Tensor] = given) -> sf.Tensor:
            given.append(sf.ones(*shape))
            return given[-1]

        def call(*tensors: sf.Tensor, of_all: tuple[int, ...] = (m, k, j, n)) -> sf.Tensor:
            rest = iter(tensors)
            return PRODUCTS[name](lambda *shape: next(rest), *of_all)

        for run in (None, sf.jit(call)) if is_jit else (None, call):  # remembered the second time
            try:
                run(*given) if run else PRODUCTS[name](record, m, k, j, n)
            except StaticflowError:
                continue
            taken.append((m, k, j, n))
    assert not taken
