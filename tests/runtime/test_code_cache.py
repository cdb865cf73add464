"""Machine code on disk: found again by what decides it, never used where it is damaged or another's."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import staticflow as sf
from staticflow.config import config
from staticflow.native import module as rendering
from staticflow.native.layout import Layout
from staticflow.runtime import code_cache as module
from staticflow.runtime import compiler, machine, native
from staticflow.runtime.code_cache import CodeCache, code_cache, key_of
from staticflow.runtime.program_cache import MARK
from staticflow.tools.cli import main

PARTS = ("object", b"\x00text")
DATA = bytes(range(256)) * 5


def never() -> bytes:
    raise AssertionError("it is made again")


@pytest.fixture
def cache(tmp_path: Path) -> CodeCache:
    made = CodeCache(tmp_path / "new" / "codes")
    assert made.fetch(lambda: DATA, *PARTS) == DATA
    return made


def entry(cache: CodeCache) -> Path:
    (found,) = cache.folder.iterdir()
    return found


def test_what_was_made_is_found_by_all_its_parts(cache: CodeCache) -> None:
    assert CodeCache(cache.folder).fetch(never, *PARTS) == DATA
    for other in (
        ("object",),
        ("object", b"\x00", "text"),
        (b"object\x00text",),
        ("object", b"\x00Text"),
    ):
        assert cache.fetch(lambda: b"other", *other) == b"other"
    assert cache.fetch(never, *PARTS) == DATA
    assert cache.usage().entries == 5
    cache.clear()
    assert cache.usage() == module.Usage(0, 0)


def test_nobody_else_may_read_or_write(cache: CodeCache) -> None:
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(cache).stat().st_mode) == 0o600


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda b: b"",
    "cut": lambda b: b[:-1],
    "longer": lambda b: b + b"\0",
    "another form": lambda b: b"staticflow 0\n" + b[13:],
    "key": lambda b: b[:20] + bytes([b[20] ^ 1]) + b[21:],
    "checksum": lambda b: b[:60] + bytes([b[60] ^ 128]) + b[61:],
    "first byte": lambda b: b[:77] + bytes([b[77] ^ 1]) + b[78:],
    "last byte": lambda b: b[:-1] + bytes([b[-1] ^ 1]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_anew(cache: CodeCache, damage: str) -> None:
    file = entry(cache)
    whole = file.read_bytes()
    assert len(whole) == 13 + 32 + 32 + len(DATA)
    file.write_bytes(DAMAGES[damage](whole))
    with pytest.warns(UserWarning, match=f"{file.name} is damaged"):
        assert cache.fetch(lambda: DATA, *PARTS) == DATA
    assert file.read_bytes() == whole
    assert cache.fetch(never, *PARTS) == DATA


def test_an_entry_by_the_name_of_another_is_not_taken_for_it(cache: CodeCache) -> None:
    first = entry(cache)
    cache.fetch(lambda: b"other", "other")
    (second,) = set(cache.folder.iterdir()) - {first}
    os.replace(first, second)
    with pytest.warns(UserWarning, match="damaged, or another's"):
        assert cache.fetch(lambda: b"other", "other") == b"other"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of POSIX")
def test_what_others_may_write_is_not_used(cache: CodeCache) -> None:
    entry(cache).chmod(0o620)
    with pytest.warns(UserWarning, match="damaged, or another's"):
        assert cache.fetch(lambda: DATA, *PARTS) == DATA
    assert cache.fetch(never, *PARTS) == DATA  # a new file, with the rights of one


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of POSIX")
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_into_is_refused(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(mode)
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    with pytest.warns(UserWarning, match=f"{tmp_path} is another user's, or others.*chmod go-w"):
        assert code_cache() is None
    assert code_cache() is None  # said once


def test_where_nothing_can_be_stored_all_works_and_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = CodeCache(tmp_path / "file" / "codes")
    with pytest.warns(UserWarning, match="is not kept for the next process"):
        assert cache.fetch(lambda: DATA, *PARTS) == DATA
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.fetch(lambda: DATA, "others") == DATA
    assert cache.usage().entries == 0


def test_a_failed_write_leaves_no_file(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.fetch(lambda: b"other", "other")
    assert [p.name for p in cache.folder.iterdir()] == [entry(cache).name]


def test_what_was_not_asked_for_longest_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STORES", 1)
    cache = CodeCache(tmp_path, limit=10_000)
    files: set[Path] = set()
    for i in range(8):
        cache.fetch(lambda: bytes(1000), str(i))
        (file,) = set(tmp_path.iterdir()) - files
        files.add(file)
        os.utime(file, (1e9 + i, 1e9 + i))
    left_over = tmp_path / "x.part"
    left_over.touch()
    os.utime(left_over, (1e9, 1e9))
    (tmp_path / "notes").touch()  # nothing of ours
    cache.fetch(never, "0")  # asked for again
    cache.fetch(lambda: bytes(2000), "large")
    assert not left_over.exists() and (tmp_path / "notes").exists()
    assert cache.usage().bytes <= 7500
    assert cache.fetch(never, "0") == bytes(1000) and cache.fetch(never, "large") == bytes(2000)
    with pytest.raises(AssertionError, match="made again"):
        cache.fetch(never, "1")


def test_a_large_folder_is_seldom_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work for an entry does not grow with their number."""
    monkeypatch.setattr(module, "_STORES", 1)
    for i in range(800):
        (tmp_path / f"{i:064x}").touch()
    cache = CodeCache(tmp_path)
    looks = []
    scan = module.os.scandir
    monkeypatch.setattr(module.os, "scandir", lambda folder: looks.append(folder) or scan(folder))
    for i in range(200):
        cache.store(key_of(str(i)), b"")
    assert len(looks) == 2  # at the first, and behind an eighth more


def test_threads_store_and_find_the_same(tmp_path: Path) -> None:
    caches = [CodeCache(tmp_path, limit=20_000) for _ in range(2)]
    wrong: list[object] = []

    def work(cache: CodeCache, seed: int) -> None:
        for i in range(100):
            key = str((i * seed) % 17)
            if cache.fetch(lambda key=key: key.encode() * 500, key) != key.encode() * 500:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(caches[s % 2], s)) for s in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and not [p for p in tmp_path.iterdir() if p.suffix == ".part"]


# -- whole processes -----------------------------------------------------------------------------

PROGRAM = """
import sys
import staticflow as sf
from staticflow.runtime import compiler
from staticflow.native import module

made = []
parse, text = compiler._module_of, module._Program.text
compiler._module_of = lambda *given: made.append("code") or parse(*given)
module._Program.text = lambda *given: made.append("text") or text(*given)
w = sf.tensor([1.0, 2.0], requires_grad=True)
(w * 3).exp().sum().backward()
x = sf.placeholder((None, 2))
program = sf.compile([x], sf.scan(lambda c, r: (c + r.exp(), c.sum()), sf.zeros(2), x))
sf.set_num_threads(2)
print(w.grad.tolist(), [t.tolist() for t in program(sf.ones(3, 2))])
print(sorted(made))  # threads make them in any order
"""


def run(folder: Path) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=os.environ | {"STATICFLOW_CACHE_DIR": str(folder)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ended.stdout.splitlines()


def test_a_program_that_ran_before_compiles_nothing(tmp_path: Path) -> None:
    (numbers, made), (again, none) = run(tmp_path), run(tmp_path)
    assert "code" in made and none == "[]"
    assert numbers == again
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    damaged = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"STATICFLOW_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert damaged.stdout.splitlines() == [numbers, made] and "is damaged" in damaged.stderr


def test_other_sources_make_other_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Layout] = []
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(rendering, "render_native", lambda *given: made.append(given[1]) or "text")
    functions, layout, other = [native.native_text], Layout(), Layout({int: {"slot": 8}})
    for _ in range(3):
        assert native.native_text(functions, layout) == "text"
    assert made == [layout]
    native.native_text(functions, other)
    native.native_text(functions, layout, "beside it")
    native.native_text([*functions, native.native_text], layout)
    assert made == [layout, other, layout, layout]
    for state in (b"another release", None, None):  # None: the sources are no files
        monkeypatch.setattr(native, "package_state", lambda state=state: state)
        native.native_text(functions, layout)
    assert len(made) == 7


def test_the_state_of_the_package_is_that_of_its_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room = tmp_path / "package" / "room"
    room.mkdir(parents=True)
    first, source = room.parent / "__init__.py", room / "module.py"
    first.write_text("__version__ = '1'")
    source.write_text("x = 1")
    monkeypatch.setattr(module, "__file__", str(room / "code_cache.py"))
    states: list[bytes | None] = []

    def look() -> bool:
        """Whether the state is one that there was not yet."""
        states.append(module.package_state.__wrapped__())
        return states[-1] not in states[:-1]

    assert look() and not look()
    (room / "__pycache__").mkdir()
    (room / "__pycache__" / "module.py").write_text("")
    (room / "data.txt").write_text("")
    assert not look()
    source.write_text("x = 10")
    assert look()
    os.utime(source, (0, 0))
    assert look()
    os.utime(source, ns=(0, 1))  # changed twice within a second
    assert look()
    status = first.stat()
    first.write_text("__version__ = '2'")
    os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert look()
    source.rename(room / "other.py")
    assert look()
    monkeypatch.setattr(
        module, "__file__", str(tmp_path / "archive.zip" / "room" / "code_cache.py")
    )
    assert module.package_state.__wrapped__() is None


def test_the_code_of_a_text_depends_on_what_is_asked_of_llvm(tmp_path: Path) -> None:
    assert machine.machine_parts()[-1] == Path(compiler.__file__).read_text()
    assert module.own_source(str(tmp_path / "archive.zip" / "native.py")) == ""


def test_without_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    with config.change(cache_dir=""):
        x = sf.placeholder((3,))
        assert code_cache() is None and sf.compile([x], x * 41)(sf.ones(3)).tolist() == [41.0] * 3
    assert not list(tmp_path.iterdir()) and code_cache() is not None


@pytest.mark.parametrize(("system", "variables", "wanted"), [
    ("linux", {}, ".cache/staticflow"), ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/staticflow"),
    ("linux", {"XDG_CACHE_HOME": "relative"}, ".cache/staticflow"),
    ("darwin", {}, "Library/Caches/staticflow"), ("win32", {"LOCALAPPDATA": "/local"}, "/local/staticflow"),
])  # fmt: skip
def test_the_usual_folder(
    system: str, variables: dict[str, str], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.sys, "platform", system)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert module._usual_folder() == Path.home() / wanted


def test_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    cache = code_cache()
    assert cache is not None
    cache.fetch(lambda: bytes(2**20), "some")
    cache.fetch(lambda: MARK, "a program")
    assert main(["cache"]) == 0 and main(["cache", "--clear"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    of = "pieces of machine code and text"
    assert first == f"{tmp_path}: 1 programs, 1 {of}, 1.0 of 256 MiB"
    assert second == f"{tmp_path}: 0 programs, 0 {of}, 0.0 of 256 MiB"
    monkeypatch.setattr(config, "cache_dir", "")
    assert main(["cache"]) == 0 and capsys.readouterr().out == "nothing is kept\n"
