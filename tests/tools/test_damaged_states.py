"""Damaged files, and states of others: `CheckpointError` for each, and nothing half loaded."""

from __future__ import annotations

import io
import json
import random
import struct
from typing import Any

import numpy as np
import pytest
from slices import today

import staticflow as sf
from staticflow import nn
from staticflow.errors import StaticflowError

pytest.importorskip("safetensors")


def part(shape: list[int], end: int, dtype: str = "F32", begin: int = 0) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def file_of(header: Any, size: int = 0) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


def structure(text: str) -> bytes:
    return file_of({"__metadata__": {"staticflow": text}})


DAMAGED = {
    "70 dims": file_of({"x": part([1] * 70, 4)}, 4),
    "no such size": file_of({"x": part([0, 2**62, 2**62], 0)}),
    "2**63": file_of({"x": part([0, 2**63], 0)}),
    "2**64": file_of({"x": part([0, 2**64], 0)}),
    "negative": file_of({"x": part([-1], 0)}),
    "overlap": file_of({"x": part([1], 4), "y": part([1], 6, begin=2)}, 6),
    "hole": file_of({"x": part([1], 4), "y": part([1], 12, begin=8)}, 12),
    "reversed": file_of({"x": part([1], 0, begin=4)}, 4),
    "too large": file_of({"x": part([2**40, 2**40], 4)}, 4),
    "dtype of none": file_of({"x": part([1], 8, "C64")}, 8),
    "header of a list": file_of([]),
    "header of a number": file_of(b"3"),
    "no JSON": file_of(b"\0" * 8),
    "no text": file_of(b'{"\xff": 1}'),
    "length of 2**64": struct.pack("<Q", 2**64 - 1) + b"{}",
    "structure cut": structure("[1"),
    "structure null": structure("null"),
    "structure deep": structure("[" * 50_000),
    "structure of large numbers": structure('["value",' + "9" * 5000 + "]"),
    "key of a list": structure('["dict",[[["list",[]],["value",1]]]]'),
    "kind of a list": structure("[[],3]"),
    "no such tensor": structure('["tensor","x"]'),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(name: str) -> None:
    with pytest.raises(sf.CheckpointError, match=r"^load: .*BytesIO.* at .*test_damaged_states.py"):
        sf.load(io.BytesIO(DAMAGED[name]))


def test_a_header_without_metadata_and_bytes_that_are_no_bool() -> None:
    """What is unusual and no damage: texts that are null, and true in other bytes than 1."""
    header = {"__metadata__": None, "x": part([3], 3, "BOOL")}
    found = sf.load(io.BytesIO(file_of(header) + b"\x00\x07\x01"))
    assert found["x"].tolist() == [False, True, True] and found["x"].sum().item() == 2


TOKENS = (
    b"null", b"-1", b"0", b"18446744073709551616", b"4611686018427387904", b"1e999", b"NaN", b"[]",
    b"{}", b'"', b'\\"', b",", b"[", b"]", b"{", b"}", b"tensor", b"value", b"dict", b"list",
)  # fmt: skip


def damage(whole: bytes, draw: random.Random) -> bytes:
    """A file cut off, with bits turned, or with other words in its header."""
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    how = draw.choice(("cut", "bits", "words", "words"))
    if how == "cut":
        return whole[: draw.randrange(len(whole))]
    if how == "bits":
        turned = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            turned[draw.randrange(header)] ^= 1 << draw.randrange(8)
        return bytes(turned)
    text = whole[8:header]
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(TOKENS) + text[at + draw.randrange(12) :]
    return struct.pack("<Q", len(text)) + text + whole[header:]


def refuse_or_load(seed: str, count: int) -> None:
    whole = io.BytesIO()
    sf.save(
        {"model": nn.Linear(3, 2).state_dict(), "e": [1, 2.5, None, ("a", {"b": sf.zeros(0, 3)})]},
        whole,
    )
    draw = random.Random(seed)
    for _ in range(count):
        data = damage(whole.getvalue(), draw)
        try:
            sf.load(io.BytesIO(data))
        except sf.CheckpointError:
            pass
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} of {data!r}") from error


def test_whatever_is_in_a_file_loads_or_is_refused() -> None:
    refuse_or_load(today(), 500)


@pytest.mark.campaign
def test_whatever_is_in_a_file_loads_or_is_refused_at_length() -> None:
    refuse_or_load("campaign", 100_000)


LINEAR: dict[str, Any] = {
    "number": 3, "None": None, "list": [], "numbers": {"weight": 3, "bias": None},
    "lists": {"weight": [[1, 2]], "bias": [1]}, "texts": {"weight": "a", "bias": "b"},
    "arrays of texts": {"weight": np.array([["a", "b"]]), "bias": np.array([None])},
    "the second": {"weight": np.ones((1, 2)), "bias": np.ones(1, complex)},
    "of another": {"state": {}, "param_groups": []},
}  # fmt: skip
ADAM: dict[str, Any] = {
    "number": 3, "None": None, "empty": {}, "groups": {"state": {}, "param_groups": 4},
    "no params": {"state": {}, "param_groups": [{}]}, "state": {"state": 3, "param_groups": []},
    "number as params": {"state": {}, "param_groups": [{"params": 3}]},
    "lists as numbers": {"state": {}, "param_groups": [{"params": [[], []]}]},
    "state of numbers": {"state": {0: 3}, "param_groups": [{"params": [0, 1]}]},
    "of a module": {"weight": sf.ones(1, 2)},
    "number as state": {"state": {0: {"exp_avg": "a"}}, "param_groups": [{"params": [0, 1]}]},
}  # fmt: skip
STEP: dict[str, Any] = {
    "number": 3, "None": None, "empty": {}, "text": {"last_epoch": "1"}, "of a module": {"weight": 1},
}  # fmt: skip


def targets() -> dict[str, Any]:
    model = nn.Linear(2, 1)
    adam = sf.optim.Adam(model.parameters())
    step = sf.optim.lr_scheduler.StepLR(adam, 2)
    return {
        "Linear": model, "Adam": adam, "StepLR": step,
        "LBFGS": sf.optim.LBFGS(model.parameters()),
        "Chained": sf.optim.lr_scheduler.ChainedScheduler([step]),
    }  # fmt: skip


STATES = [
    (name, case, state)
    for name, states in (
        ("Linear", LINEAR), ("Adam", ADAM), ("StepLR", STEP),
        ("LBFGS", {n: ADAM[n] for n in ("number", "None", "empty", "groups", "no params")}),
        ("Chained", {"none": {"_schedulers": []}, "number": {"_schedulers": [3]}, "empty": {}}),
    )
    for case, state in states.items()
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "case", "state"), STATES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_foreign_state_is_refused_and_changes_nothing(name: str, case: str, state: Any) -> None:
    target = targets()[name]
    before = repr(target.state_dict())
    with pytest.raises(StaticflowError, match=r"load_state_dict.* at .*test_damaged_states.py"):
        target.load_state_dict(state)
    assert repr(target.state_dict()) == before
