"""Sizes that no array has, whatever memory there is: `ShapeError` in both modes, at the line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf

F = sf.nn.functional

MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": lambda x, *s: sf.zeros(*s), "ones": lambda x, *s: sf.ones(*s),
    "empty": lambda x, *s: sf.empty(*s), "full": lambda x, *s: sf.full(s, 2.0),
    "rand": lambda x, *s: sf.rand(*s), "randn": lambda x, *s: sf.randn(*s),
    "randint": lambda x, *s: sf.randint(0, 3, s), "expand": lambda x, *s: x.expand(*s),
    "new_zeros": lambda x, *s: x.new_zeros(s), "pad": lambda x, *s: F.pad(x, (0, s[0], 0, s[1])),
    "eye": lambda x, *s: sf.eye(s[0], s[1]), "zeros_like": lambda x, *s: sf.zeros_like(x.expand(*s)),
    "repeat": lambda x, *s: x.repeat(*s),
}  # fmt: skip
SIZES = ((2**40, 2**40), (2**61, 2), (2**62, 2**62, 0), (1,) * 65)


@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: f"{s[0]}x{len(s)}")
@pytest.mark.parametrize("name", MAKERS)
def test_no_array_is_so_large(name: str, sizes: tuple[int, ...]) -> None:
    if name in ("pad", "eye") and sizes not in SIZES[:2]:
        pytest.skip("takes two sizes")

    def make(x: Any) -> Any:
        return MAKERS[name](x, *sizes).sum()

    with pytest.raises((sf.ShapeError, MemoryError)) as error:  # another dtype may be as large
        make(sf.ones(1, 1))
    if error.type is sf.ShapeError:
        assert re.search(r"at most 64 dims and \d+ bytes.* at .*_sizes.py", str(error.value))
    what = "bytes" if len(sizes) <= 64 else "dims, not 65"
    with pytest.raises(sf.ShapeError, match=rf"at most \d+ {what}.* at .*_sizes.py"):
        sf.jit(make)(sf.ones(1, 1))
