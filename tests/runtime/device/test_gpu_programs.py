"""Programs on a real GPU, through cupy, against the CPU: what `test_device_programs` and
`test_device_ops` do on an emulated one.

Deselected unless pytest is given ``-m gpu``; without cupy or a device they fail then. Nobody has
run them yet.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from device_programs import CHECKS
from test_device_ops import RUN, check_program

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_programs(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", RUN)
def test_every_op(name: str, unknown: bool) -> None:
    check_program(name, unknown)
