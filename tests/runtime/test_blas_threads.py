"""NumPy's OpenBLAS runs on as many threads as staticflow's kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import staticflow as sf
from staticflow.runtime import blas, threads

openblas = pytest.mark.skipif(blas.blas_threads() is None, reason="NumPy has another library")


@pytest.fixture(autouse=True)
def _number_of_threads() -> Iterator[None]:
    before = sf.get_num_threads()
    yield
    sf.set_num_threads(before)


def test_the_library_of_wheels_is_found() -> None:
    library = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    assert (blas.blas_threads() is not None) == ("openblas" in library)


@openblas
def test_it_has_as_many_threads_as_are_set_and_no_more_than_at_first() -> None:
    sf.set_num_threads(1)
    assert blas.blas_threads() == 1
    sf.set_num_threads(10_000)
    most = blas.blas_threads()
    sf.set_num_threads(2)
    assert blas.blas_threads() == min(2, most or 2)


THREADS = """
import staticflow as sf
from staticflow.runtime.blas import blas_threads
first = blas_threads()
sf.set_num_threads(3)
print(first, blas_threads())
"""


_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}


@openblas
@pytest.mark.parametrize(
    ("variables", "expected"),
    [  # (the library knows how many processors there are, and takes no more)
        ({"OPENBLAS_NUM_THREADS": "1", "STATICFLOW_NUM_THREADS": "2"}, "1 1"),
        ({"STATICFLOW_NUM_THREADS": "1"}, f"1 {min(3, threads.usable_processors())}"),
    ],
)
def test_what_the_environment_says_of_it_is_the_most(
    variables: dict[str, str], expected: str
) -> None:
    found = subprocess.run(
        [sys.executable, "-c", THREADS], env=_ENVIRONMENT | variables, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == expected


def test_without_openblas_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_openblas", lambda: None)
    blas.limit_blas_threads(1)
    assert blas.blas_threads() is None
