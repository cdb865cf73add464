"""What scripts for PyTorch set as they begin, and the memory formats that they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import staticflow as sf
from staticflow.config import config


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    before = {**vars(sf.backends.cudnn)["_switches"]}
    yield
    for name, value in before.items():
        setattr(sf.backends.cudnn, name, value)
    sf.set_float32_matmul_precision("highest")
    sf.use_deterministic_algorithms(False)


def test_a_script_may_begin_with_its_switches() -> None:
    sf.backends.cudnn.deterministic = False
    sf.backends.cudnn.benchmark = True
    sf.backends.cuda.matmul.allow_tf32 = sf.backends.cudnn.allow_tf32 = False
    assert (sf.backends.cudnn.deterministic, sf.backends.cudnn.benchmark) == (False, True)
    assert repr(sf.backends.cudnn) == (
        "backends.cudnn(enabled=False, deterministic=False, benchmark=True, allow_tf32=False)"
    )
    assert "benchmark" in dir(sf.backends.cudnn)
    names = ("mps", "mkl", "openmp", "cudnn", "mkldnn")
    assert not any(getattr(sf.backends, n).is_available() for n in names)
    assert sf.backends.cudnn.version() is None and not sf.backends.mps.is_built()
    assert sf.backends.cuda.is_built() == sf.cuda.is_available()


def test_what_is_asked_for_is_given_back() -> None:
    assert (sf.get_float32_matmul_precision(), sf.are_deterministic_algorithms_enabled()) == (
        "highest",
        False,
    )
    sf.set_float32_matmul_precision("medium")
    sf.use_deterministic_algorithms(True, warn_only=True)
    assert (sf.get_float32_matmul_precision(), sf.are_deterministic_algorithms_enabled()) == (
        "medium",
        True,
    )


@pytest.mark.parametrize("way", ["cudnn", "flash", "math", "mem_efficient"])
def test_ways_of_attention_are_asked_for_and_told(way: str) -> None:
    cuda: Any = sf.backends.cuda
    enable, enabled = getattr(cuda, f"enable_{way}_sdp"), getattr(cuda, f"{way}_sdp_enabled")
    assert enabled()
    try:
        enable(False)
        assert not enabled()
    finally:
        enable(True)
    with pytest.raises(sf.DTypeError, match=f"enable_{way}_sdp: 'enabled'"):
        enable("yes")
    assert enabled()


def test_leave_to_be_less_exact_is_not_taken() -> None:
    x = sf.randn(40, 300, generator=sf.Generator().manual_seed(1))
    before = (x @ x.T).tolist()
    sf.set_float32_matmul_precision("medium")
    sf.backends.cuda.matmul.allow_tf32 = True
    try:
        assert (x @ x.T).tolist() == before
    finally:
        sf.backends.cuda.matmul.allow_tf32 = False


def test_both_ways_to_allow_tf32_are_one_setting() -> None:
    matmul: Any = sf.backends.cuda.matmul
    for precision in ("high", "medium"):
        sf.set_float32_matmul_precision(precision)
        assert matmul.allow_tf32 and config.tf32
        matmul.allow_tf32 = False
        assert (sf.get_float32_matmul_precision(), config.tf32) == ("highest", False)
    matmul.allow_tf32 = True
    assert sf.get_float32_matmul_precision() == "medium"
    sf.set_float32_matmul_precision("highest")
    assert not matmul.allow_tf32
    matmul.allow_tf32 = True
    assert sf.get_float32_matmul_precision() == "high"
    with pytest.raises(sf.ArgumentError, match=r"allow_tf32: must be True or False, not 1"):
        matmul.allow_tf32 = 1


def test_wrong_switches_are_refused() -> None:
    wrong: Any = "warn"
    with pytest.raises(
        sf.ArgumentError, match=r"cudnn: there is no switch 'fast'; .*benchmark.*, at .*backends"
    ):
        sf.backends.cudnn.fast = True
    with pytest.raises(
        AttributeError, match="mps: there is no switch 'fast'; those there are: none"
    ):
        _ = sf.backends.mps.fast
    with pytest.raises(
        sf.ArgumentError, match=r"cudnn.benchmark: must be True or False, not 'warn', at .*backends"
    ):
        sf.backends.cudnn.benchmark = wrong
    with pytest.raises(
        sf.ArgumentError, match=r"one of 'highest', 'high', 'medium', not 'low', at .*backends"
    ):
        sf.set_float32_matmul_precision("low")
    with pytest.raises(sf.DTypeError, match=r"'mode' must be bool, not 'warn', at .*backends"):
        sf.use_deterministic_algorithms(wrong)


MADE: dict[str, Any] = {
    "zeros_like": sf.zeros_like,
    "ones_like": sf.ones_like,
    "empty_like": sf.empty_like,
    "full_like": lambda x, **options: sf.full_like(x, 2, **options),
    "rand_like": sf.rand_like,
    "randn_like": sf.randn_like,
    "randint_like": lambda x, **options: sf.randint_like(x, 3, **options),
    "contiguous": lambda x, **options: x.contiguous(**options),
}


@pytest.mark.parametrize("name", MADE)
def test_memory_formats(name: str) -> None:
    x, symbol = sf.ones(2, 3).t(), sf.placeholder((3, 2), name="x")
    for memory_format in (None, sf.preserve_format, sf.contiguous_format):
        for of in (x, symbol):
            assert MADE[name](of, memory_format=memory_format).shape == (3, 2)
        assert MADE[name](x, memory_format=memory_format).is_contiguous()
    for wrong in ("channels_last", 1):
        with pytest.raises(
            sf.ArgumentError, match=rf"^{name}: memory_format must be .*leave it out, at .*backends"
        ):
            MADE[name](x, memory_format=wrong)


def test_a_wrong_argument_is_the_called_functions() -> None:
    for name in ("zeros_like", "ones_like", "empty_like"):
        with pytest.raises(
            TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'format', at"
        ):
            getattr(sf, name)(sf.ones(2), format=1)
