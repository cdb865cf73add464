"""Counterparts of a model under other libraries: who takes part, and who is left out and why."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.comparison.contest import eager_contestant, static_contestant
from staticflow.comparison.job import Job, make_job
from staticflow.comparison.peers import Peers, time_peers
from staticflow.comparison.source import ModelFile, check_peers
from staticflow.errors import ArgumentError

FILE = Path(__file__).parents[2] / "examples" / "peers.py"
QUICK: dict[str, Any] = {"rounds": 2, "seconds": 1e-4}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return runpy.run_path(str(FILE))


@pytest.fixture(scope="module")
def job(names: dict[str, Any]) -> Job:
    kept = {n: names[n] for n in ("example_inputs", "loss", "optimizer")}
    return make_job(ModelFile(str(FILE), "two_layer", lambda: names["two_layer"](8), kept))


def timed(job: Job, peers: dict[str, Any]) -> Peers:
    return time_peers(job, peers, static_contestant(job), **QUICK)


def test_a_peer_that_computes_the_same_is_timed(job: Job, names: dict[str, Any]) -> None:
    found = timed(job, {"NumPy by hand": names["by_hand"]})
    (peer,) = found.timed
    assert peer.name == "NumPy by hand" and peer.version == np.__version__
    assert 0 <= peer.difference < 1e-5 and peer.first_step > 0
    assert peer.step.count == 2 and peer.ratio is not None and peer.ratio.count == 2
    assert found.left_out == ()


def wrong_gradient(parameters: Any, by_hand: Any) -> Any:
    step, read = by_hand(parameters)

    def other(x: Any, y: Any) -> Any:
        parameters["2.bias"] += np.float32(1e-3)
        return step(x, y)

    return other, read


def missing_library(parameters: Any) -> Any:
    import rare_library_of_arrays  # noqa: F401


def broken(parameters: Any) -> Any:
    def step(x: Any, y: Any) -> Any:
        raise ValueError("no such thing")

    return step, lambda: parameters


def test_who_does_not_take_part_is_told_in_a_sentence(job: Job, names: dict[str, Any]) -> None:
    by_hand = names["by_hand"]
    given = {
        "absent": missing_library,
        "wrong": lambda p: wrong_gradient(p, by_hand),
        "broken": broken,
        "silent": lambda p: (by_hand(p)[0], lambda: {"0.weight": p["0.weight"]}),
        "single": lambda p: 3,
        "right": by_hand,
    }
    found = timed(job, given)
    assert [p.name for p in found.timed] == ["right"] and found.timed[0].version == ""
    absent, wrong, broke, silent, single = found.left_out
    assert absent == "absent is left out: No module named 'rare_library_of_arrays'"
    assert wrong.startswith("wrong is left out, since it does not compute the same: ")
    assert wrong.endswith("off, relative to its size, and 1e-04 is allowed")
    assert broke.startswith("broken is left out, since it fails: ValueError: no such thing, at ")
    assert silent == "silent is left out: its parameters() has no '0.bias'"
    assert single.startswith("single is left out, since it fails: TypeError")


class Normed(sf.nn.Module):
    """A bias in front of a normalisation, whose gradient is rounding alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = sf.nn.Linear(3, 4), sf.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        return self.last((h - h.mean(dim=0)).tanh())


def test_what_adam_makes_of_rounding_is_not_compared_and_said() -> None:
    said = {"example_inputs": ("f32[8, 3]", "f32[8, 2]"), "loss": "mse_loss"}
    job = make_job(ModelFile("here", "Normed", Normed, {**said, "optimizer": "adam(lr=0.01)"}))

    def twin(shift: str, size: float) -> Any:
        def make(parameters: Any) -> Any:
            ours = eager_contestant(job)

            def read() -> Any:
                state = dict(ours.snapshot())
                state[shift] = state[shift] + np.float32(size)
                return state

            return ours.step, read

        return make

    peers = {"shifted": twin("first.bias", 0.01), "wrong": twin("last.bias", 0.01)}
    found = timed(job, peers)
    assert [p.name for p in found.timed] == ["shifted"]
    assert "wrong is left out, since it does not compute the same" in found.left_out[0]
    assert found.notes[-1] == (
        "shifted is compared without 4 elements of its parameters, whose gradient is rounding "
        "alone in one of the first steps"
    )
    assert all(n.startswith("beside the peers other programs kept") for n in found.notes[:-1])


def test_pytorch_has_as_many_threads_as_staticflow(
    job: Job, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    torch = SimpleNamespace(get_num_threads=lambda: 7, set_num_threads=asked.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    timed(job, {"one": names["by_hand"]})
    assert asked == [sf.get_num_threads(), 7]


def test_what_is_no_dict_of_functions_is_refused() -> None:
    assert list(check_peers({"a": broken})) == ["a"]
    with pytest.raises(ArgumentError, match="peers is of type list; it must be a dict"):
        check_peers([broken])
    with pytest.raises(ArgumentError, match=r"peers\['a'\] is of type str"):
        check_peers({"a": "torch"})
