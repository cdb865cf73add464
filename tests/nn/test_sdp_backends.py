"""`sdpa_kernel` chooses how attention is computed, in both modes, and says what cannot be."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.nn.attention import SDPBackend, sdpa_kernel

MATH, FLASH, EFFICIENT, CUDNN = (
    SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
)  # fmt: skip
attention = sf.nn.functional.scaled_dot_product_attention
BLOCKS = "ScaledDotProductFlashAttentionForCpuBackward0"


def operands(rows: int = 1024) -> list[Any]:
    sf.manual_seed(0)
    return [sf.randn(2, rows, 64, requires_grad=True) for _ in range(3)]


def kinds(out: Any, inputs: list[Any]) -> list[str]:
    program = sf.compile(inputs, [out, *sf.grad(out.sum(), inputs)])
    return [n.attrs["kind"] for n in program.optimized.nodes if n.op.name == "cluster"]


@pytest.mark.parametrize(
    "backends, priority, blocks",
    [
        (MATH, False, False), (FLASH, False, True), (EFFICIENT, False, True),
        ([MATH, FLASH], False, True), ([MATH, FLASH], True, False), ([CUDNN, FLASH], True, True),
        ([CUDNN, MATH], False, False),
    ],
)  # fmt: skip
def test_both_modes_take_what_is_named(backends: Any, priority: bool, blocks: bool) -> None:
    tensors = operands()
    inputs = [sf.placeholder((2, None, 64), name=n) for n in "qkv"]
    mask = sf.ones(1024, 1024).tril() > 0
    wanted = attention(*tensors, is_causal=True)
    assert wanted.grad_fn.name() == BLOCKS
    with sdpa_kernel(backends, set_priority=priority):
        causal, masked = attention(*tensors, is_causal=True), attention(*tensors, mask)
        traced = attention(*inputs, is_causal=True)
    for out in (causal, masked):
        assert (out.grad_fn.name() == BLOCKS) is blocks
        np.testing.assert_allclose(out.detach().numpy(), wanted.detach().numpy(), 1e-3, 1e-5)
    assert ("attend" in kinds(traced, inputs)) is blocks
    again = attention(*tensors, is_causal=True)  # behind the block all is as before
    assert again.grad_fn.name() == BLOCKS


def test_gradients_are_those_of_the_blocks() -> None:
    inputs = [sf.placeholder((2, None, 64), name=n) for n in "qkv"]
    arrays = [t.detach() for t in operands(130)]
    found = []
    for backend in (MATH, FLASH):
        with sdpa_kernel(backend):
            out = attention(*inputs, is_causal=True)
            loss = (out * out).sum()
            program = sf.compile(inputs, sf.grad(loss, inputs))
            tensors = [a.clone().requires_grad_() for a in arrays]
            attention(*tensors, is_causal=True).square().sum().backward()
        found += [list(program(*arrays)), [t.grad for t in tensors]]
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-3, 1e-4)


def test_jit_traces_anew_for_another_choice() -> None:
    tensors = operands(16)
    step = sf.jit(lambda *qkv: attention(*qkv, dropout_p=0.5).sum())
    step(*tensors)
    for _ in range(2):
        with sdpa_kernel(FLASH), pytest.raises(sf.ArgumentError, match="MATH alone leaves"):
            step(*tensors)
        with sdpa_kernel(MATH):
            step(*tensors)
        step(*tensors)


def test_what_no_named_backend_can_do_is_refused_in_both_modes() -> None:
    symbols = [sf.placeholder((2, 16, 64), name=n) for n in "qkv"]
    for qkv in (operands(16), symbols):
        with sdpa_kernel([FLASH, EFFICIENT]):
            with pytest.raises(
                sf.ArgumentError,
                match=r"FLASH_ATTENTION, EFFICIENT_ATTENTION.*dropout.*test_sdp_backends.py",
            ):
                attention(*qkv, dropout_p=0.1)
            attention(*qkv)
        for backends in (CUDNN, [CUDNN, SDPBackend.OVERRIDEABLE], SDPBackend.ERROR, []):
            with sdpa_kernel(backends), pytest.raises(sf.ArgumentError, match="sdpa_kernel allows"):
                attention(*qkv)
    for wrong in ("math", [1], None, {MATH}):
        with pytest.raises(sf.ArgumentError, match="an SDPBackend or a list"), sdpa_kernel(wrong):
            pass


def test_blocks_nest_and_are_of_their_thread() -> None:
    tensors = operands()
    found = {}

    def other() -> None:
        found["other"] = attention(*tensors).grad_fn.name()

    with sdpa_kernel(MATH):
        with pytest.raises(ZeroDivisionError), sdpa_kernel(FLASH):
            assert attention(*tensors).grad_fn.name() == BLOCKS
            raise ZeroDivisionError
        assert attention(*tensors).grad_fn.name() != BLOCKS
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found["other"] == BLOCKS


def test_names_and_numbers_are_pytorchs() -> None:
    theirs = pytest.importorskip("torch", reason='pip install "staticflow[torch]"').nn.attention
    assert {b.name: int(b) for b in SDPBackend} == {
        name: int(b) for name, b in theirs.SDPBackend.__members__.items()
    }
