"""Checkpoints: what comes back, that files are whole or not there, and what is refused."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import struct
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn, serialization
from staticflow.graph.dtypes import DTYPES

safetensors = pytest.importorskip("safetensors.numpy")


def back(obj: Any, folder: Path) -> Any:
    sf.save(obj, folder / "state.safetensors")
    return sf.load(folder / "state.safetensors")


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_dtype(dtype: Any, tmp_path: Path) -> None:
    for array in (np.arange(6).reshape(2, 3), np.array(1), np.zeros((0, 3)), np.arange(8)[::-2]):
        wanted = array.astype(dtype.numpy)
        found = back({"x": sf.tensor(wanted)}, tmp_path)["x"]
        assert found.dtype is dtype and found.shape == wanted.shape
        assert found.tolist() == wanted.tolist()
        found.zero_()  # it can be written to


def test_open_files(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    memory = io.BytesIO()
    with open(tmp_path / "state", "wb") as file:
        for f in (memory, file):
            sf.save({"model": model.state_dict(), "epoch": 3}, f)
    memory.seek(0)
    with open(tmp_path / "state", "rb") as file:
        for f in (memory, file):
            found = sf.load(f)
            assert found["epoch"] == 3 and sf.equal(found["model"]["weight"], model.weight)
    with pytest.raises(sf.CheckpointError, match="load: BytesIO is no safetensors file"):
        sf.load(io.BytesIO(b"something else"))


def test_weights_only_or_not(tmp_path: Path) -> None:
    sf.save({"x": sf.ones(2)}, tmp_path / "state")
    for weights_only in (True, False):
        found = sf.load(tmp_path / "state", map_location="cpu", weights_only=weights_only)
        assert found["x"].tolist() == [1.0, 1.0]


def test_plain_values_and_containers(tmp_path: Path) -> None:
    obj = {
        "none": None, "yes": True, "int": 2**70, "float": 0.1, "text": "über", 3: ("a", [1, 2.5]),
        "empty": [{}, [], ()], "numpy": np.float32(0.5), (1, "x"): "tuple key", None: 1,
    }  # fmt: skip
    found = back(obj, tmp_path)
    assert found == {**obj, "numpy": 0.5} and list(found) == list(obj)
    assert [type(v) for v in found.values()][:4] == [type(None), bool, int, float]
    inf, nan = back([math.inf, math.nan], tmp_path)
    assert inf == math.inf and math.isnan(nan)
    assert back("alone", tmp_path) == "alone" and back(sf.ones(2), tmp_path).tolist() == [1, 1]


def test_names_with_dots_do_not_meet(tmp_path: Path) -> None:
    obj = {"a": {"b.c": sf.tensor(1)}, "a.b": {"c": sf.tensor(2)}, "a.b.c": sf.tensor(3)}
    found = back(obj, tmp_path)
    assert (found["a"]["b.c"].item(), found["a.b"]["c"].item(), found["a.b.c"].item()) == (1, 2, 3)


def test_a_training_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    def made() -> tuple[Any, ...]:
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        optimiser = sf.optim.Adam(model.parameters(), lr=0.1, amsgrad=True)
        return model, optimiser, sf.optim.lr_scheduler.StepLR(optimiser, 2)

    def train(model: Any, optimiser: Any, schedule: Any) -> float:
        for _ in range(3):
            optimiser.zero_grad()
            loss = (model(sf.ones(2, 3)) ** 2).sum()
            loss.backward()
            optimiser.step()
            schedule.step()
        return loss.item()

    first, second = made(), made()
    train(*first)
    sf.save([part.state_dict() for part in first], tmp_path / "run.safetensors")
    for part, state in zip(second, sf.load(tmp_path / "run.safetensors"), strict=True):
        part.load_state_dict(state)
    assert train(*first) == train(*second)


def test_files_of_others_are_read_and_ours_by_others(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    safetensors.save_file({"w": np.ones((2, 3), np.float32)}, path)
    found = sf.load(path)
    assert list(found) == ["w"] and found["w"].shape == (2, 3)
    model = nn.Linear(2, 1)
    sf.save(model.state_dict(), path)
    read = safetensors.load_file(path)
    assert sorted(read) == ["bias", "weight"]
    assert read["weight"].tolist() == model.weight.tolist()


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "state.safetensors"
    sf.save({"epoch": 1}, path)
    with pytest.raises(sf.CheckpointError, match=r"save: model\.1 is a Linear; .*state_dict"):
        sf.save({"model": [1, nn.Linear(1, 1)]}, path)

    def fails(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="full"):
        sf.save({"epoch": 2}, path)
    assert sf.load(path) == {"epoch": 1} and os.listdir(tmp_path) == ["state.safetensors"]


def test_the_mode_of_the_file_is_the_usual_one(tmp_path: Path) -> None:
    sf.save({}, tmp_path / "ours")
    (tmp_path / "theirs").write_bytes(b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


class Evil:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("the file ran code",))


def damaged() -> dict[str, bytes]:
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + bytes(8)
    return {
        "empty": b"", "text": b"hello, world", "cut": whole[:-1], "longer": whole + b"x",
        "huge header": struct.pack("<Q", 2**60) + header, "only a header": whole[: 8 + len(header)],
    }  # fmt: skip


@pytest.mark.parametrize("name", damaged())
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(damaged()[name])
    with pytest.raises(sf.CheckpointError, match=r"state is no safetensors file, or it is damaged"):
        sf.load(path)


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    for data in (pickle.dumps(Evil()), b"PK\x03\x04 a zip archive of torch.save"):
        path.write_bytes(data)
        with pytest.raises(
            sf.CheckpointError, match=r"looks like a pickle.*save_file.*test_serial"
        ):
            sf.load(path)


@pytest.mark.parametrize(
    "structure",
    [
        '["tensor", "y"]', '["run", []]', "[]", "3", "nonsense", '["dict", [[["list", []], 1]]]',
        "[" * 100_000, '["list", ["value"]]', '["dict", [1]]',
    ],
)  # fmt: skip
def test_a_structure_that_does_not_fit_is_refused(structure: str, tmp_path: Path) -> None:
    path = tmp_path / "state"
    safetensors.save_file({"x": np.zeros(1)}, path, metadata={"staticflow": structure})
    with pytest.raises(sf.CheckpointError, match="its structure does not fit"):
        sf.load(path)


def test_a_dtype_that_there_is_no_tensor_of(tmp_path: Path) -> None:
    path = tmp_path / "state"
    safetensors.save_file({"x": np.zeros(1, np.uint32)}, path)
    with pytest.raises(sf.CheckpointError, match=r"^load: .* has 'x' of the dtype U32"):
        sf.load(path)


def test_no_file_and_no_library(tmp_path: Path, monkeypatch: Any) -> None:
    no_file = r"load: there is no file '.*nothing'; give .* at .*test_serialization.py"
    with pytest.raises(FileNotFoundError, match=no_file) as missing:
        sf.load(tmp_path / "nothing")
    folder = r"load: '.*' is a folder; give .* at .*test_serialization.py"
    with pytest.raises(IsADirectoryError, match=folder) as of_folder:
        sf.load(tmp_path)
    no_folder = r"save: there is no folder '.*nothing'; make it .* at .*test_serialization.py"
    with pytest.raises(FileNotFoundError, match=no_folder) as nowhere:
        sf.save({}, tmp_path / "nothing" / "state")
    for found in (missing, of_folder, nowhere):
        assert isinstance(found.value, sf.CheckpointError)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call in (lambda: sf.load(tmp_path / "x"), lambda: sf.save({}, tmp_path / "x")):
        with pytest.raises(ImportError, match=r"pip install .*checkpoint"):
            call()
    assert serialization.load is sf.load


def test_a_file_keeps_its_permissions_and_a_link_is_followed(tmp_path: Path) -> None:
    path, folder = tmp_path / "state", tmp_path / "links"
    folder.mkdir()
    for mode in (0o600, 0o664, 0o640):
        path.touch()
        path.chmod(mode)
        sf.save({"mode": mode}, path)
        assert path.stat().st_mode & 0o7777 == mode
    first, second = folder / "first", folder / "second"
    first.symlink_to("../state")
    second.symlink_to(first)
    sf.save({"epoch": 2}, second)
    assert second.is_symlink() and first.is_symlink() and not path.is_symlink()
    assert sf.load(path) == {"epoch": 2} and path.stat().st_mode & 0o7777 == 0o640
    second.unlink()
    second.symlink_to("not there yet")
    sf.save({"epoch": 3}, second)
    assert second.is_symlink() and sf.load(folder / "not there yet") == {"epoch": 3}
    assert sorted(os.listdir(tmp_path)) == ["links", "state"] and len(os.listdir(folder)) == 3


def test_what_is_no_ordinary_file_is_written_to(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(sf.load(pipe)))
    reader.start()
    sf.save({"epoch": 1}, pipe)
    reader.join()
    assert found == [{"epoch": 1}] and pipe.is_fifo()
    with pytest.raises(IsADirectoryError, match=r"save: '.*' is a folder") as error:
        sf.save({}, tmp_path)
    assert isinstance(error.value, sf.CheckpointError)


def endless() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"w": np.ones(2, complex)}, "w is an ndarray of complex128"),
        (np.ones(2, np.uint16), "the object is an ndarray of uint16"),
        (np.array([None]), "of object"),
        (np.ma.array([1, 2], mask=[0, 1]), "is a MaskedArray of int64"),
        ({"\ud800": sf.ones(1)}, "UnicodeEncodeError"),
        ([10**5000], "ValueError"),
        (endless(), "RecursionError"),
        ({"a": {(sf.ones(1),): 1}}, "a tensor is a key of a"),
    ],
)
def test_what_cannot_be_saved_is_refused(obj: Any, message: str) -> None:
    with pytest.raises(
        sf.CheckpointError, match=f"^save: .*{message}.* at .*test_serialization.py"
    ):
        sf.save(obj, io.BytesIO())


def test_a_tensor_may_have_the_name_of_the_metadata() -> None:
    memory = io.BytesIO()
    sf.save({"__metadata__": sf.ones(2)}, memory)
    memory.seek(0)
    assert sf.load(memory)["__metadata__"].tolist() == [1, 1]


@pytest.mark.parametrize("f", [3, None, io.StringIO("text")])
def test_what_is_no_file_is_refused(f: Any) -> None:
    with pytest.raises(sf.ArgumentError, match=r"load: .* at .*test_serialization.py"):
        sf.load(f)
    with pytest.raises(sf.ArgumentError, match=r"save: .* at .*test_serialization.py"):
        sf.save({}, f)
