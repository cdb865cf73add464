"""Object files in memory without LLVM, and processes that find all of their code on disk."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from staticflow.errors import CompileError
from staticflow.runtime import linker, relocations
from staticflow.runtime.compiler import emit_objects, link_with_llvm
from staticflow.runtime.linker import join_objects, link_object, links_for

HERE = links_for(sys.platform, os.uname().machine, sys.maxsize)
pytestmark = pytest.mark.skipif(not HERE, reason="this machine's object files are LLVM's to load")

TEXT = """
@count = internal global i64 5
@zeros = internal global [1000 x i64] zeroinitializer
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@address = internal constant ptr @table
declare i64 @given(i64)
declare i64 @strlen(ptr)
@word = internal constant [6 x i8] c"seven\\00"
define i64 @next() {
  %x = load i64, ptr @count
  %y = add i64 %x, 1
  store i64 %y, ptr @count
  ret i64 %y
}
define i64 @mixed(i64 %i) {
  %p = load ptr, ptr @address
  %q = getelementptr i64, ptr %p, i64 %i
  %a = load i64, ptr %q
  %z = getelementptr i64, ptr @zeros, i64 %i
  %b = load i64, ptr %z
  %c = call i64 @given(i64 %a)
  %d = call i64 @strlen(ptr @word)
  %e = add i64 %b, %c
  %f = add i64 %d, %e
  ret i64 %f
}
"""
UNARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
NULLARY = ctypes.CFUNCTYPE(ctypes.c_int64)


def emit_object(text: str, quick: bool) -> bytes:
    (data,) = emit_objects([(text, quick)])
    return data


@UNARY
def given(value: int) -> int:
    return value * 1000


SYMBOLS = {"given": ctypes.cast(given, ctypes.c_void_p).value or 0}


@pytest.mark.parametrize("link", [link_object, link_with_llvm])
def test_code_constants_variables_and_symbols(link: object) -> None:
    linked = link(emit_object(TEXT, quick=False), ["mixed", "next"], SYMBOLS)
    mixed, following = UNARY(linked.address("mixed")), NULLARY(linked.address("next"))
    assert [mixed(i) for i in range(4)] == [10_005, 20_005, 30_005, 40_005]
    assert [following(), following()] == [6, 7]
    with pytest.raises(KeyError):
        linked.address("given")


def test_each_module_has_variables_of_its_own_and_a_child_has_a_copy() -> None:
    data = emit_object(TEXT, quick=False)
    one, other = (link_object(data, ["next"], SYMBOLS) for _ in range(2))
    assert [NULLARY(m.address("next"))() for m in (one, one, other)] == [6, 7, 6]
    child = os.fork()
    if child == 0:
        os._exit(NULLARY(one.address("next"))())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
    assert NULLARY(one.address("next"))() == 8


def test_files_that_are_joined_name_what_others_define() -> None:
    """Functions and variables, either way, and each has what is its own under the same name."""
    one = """
@count = hidden global i64 5
@own = internal constant i64 100
declare i64 @other(i64)
define i64 @first(i64 %x) {
  %a = load i64, ptr @own
  %b = add i64 %x, %a
  %c = call i64 @other(i64 %b)
  ret i64 %c
}
define hidden i64 @plain(i64 %x) {
  ret i64 %x
}
"""
    two = """
@count = external hidden global i8
@own = internal constant i64 7
declare i64 @plain(i64)
define hidden i64 @other(i64 %x) {
  %a = load i64, ptr @count
  %b = load i64, ptr @own
  %c = call i64 @plain(i64 %x)
  %d = mul i64 %c, %b
  %e = add i64 %d, %a
  ret i64 %e
}
"""
    files = emit_objects([(one, False), (two, False)])
    linked = link_object(join_objects(files), ["first"], {})
    assert UNARY(linked.address("first"))(3) == 103 * 7 + 5
    with pytest.raises(CompileError, match="needs other"):
        link_object(files[0], ["first"], {})
    with pytest.raises(CompileError, match="does not end with its sections"):
        join_objects([files[0] + b"more", files[1]])


def _rights_at(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, *_ = line.split()
        first, last = (int(end, 16) for end in span.split("-"))
        if first <= address < last:
            return rights
    return ""


def test_no_page_can_be_both_written_and_run_and_all_go_with_the_module() -> None:
    linked = link_object(emit_object(TEXT, quick=False), ["next"], SYMBOLS)
    address = linked.address("next")
    assert _rights_at(address) == "r-xp"
    assert _rights_at(linked._memory.address + linked._memory._size - 1) == "rw-p"
    unmapped = []
    linked._memory._unmap = lambda *span: unmapped.append(span)
    span = linked._memory.address, linked._memory._size
    del linked
    assert unmapped == [span]
    linker._system().unmap(*span)


def test_what_is_wrong_with_a_file_is_said() -> None:
    data = emit_object(TEXT, quick=False)
    with pytest.raises(CompileError, match="has no nothing"):
        link_object(data, ["nothing"], SYMBOLS)
    with pytest.raises(CompileError, match="needs given"):
        link_object(data, ["next"], {})
    for other in (b"", b"\x7fELF", data[:4] + b"\x01" + data[5:], data[:18] + b"\x28" + data[19:]):
        with pytest.raises(CompileError, match="no object file of this machine"):
            link_object(other, [], {})
    if os.uname().machine == "aarch64":
        return  # of variables of threads LLVM itself makes nothing there, and ends the process
    of_threads = "@x = thread_local global i64 1\ndefine ptr @f() {\n  ret ptr @x\n}\n"
    with pytest.raises(CompileError, match="variables of threads"):
        link_object(emit_object(of_threads, quick=True), ["f"], {})


def test_relocations_that_are_not_known_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relocations, "_BYTES", {})
    monkeypatch.setattr(relocations, "_JUMPS", ())
    with pytest.raises(CompileError, match="relocations of kind"):
        link_object(emit_object(TEXT, quick=False), ["mixed"], SYMBOLS)


@pytest.mark.parametrize(
    "platform, machine, word, expected",
    [
        ("linux", "x86_64", 2**63 - 1, True),
        ("linux", "x86_64", 2**31 - 1, False),
        ("linux", "aarch64", 2**63 - 1, True),
        ("linux", "riscv64", 2**63 - 1, False),
        ("darwin", "x86_64", 2**63 - 1, False),
    ],
)
def test_machines(platform: str, machine: str, word: int, expected: bool) -> None:
    assert links_for(platform, machine, word) is expected


EAGER = """
w = sf.ones(4, 4, requires_grad=True)
for i in range(1500):
    y = w * 2.0
(w @ w).exp().sum().backward()
big = (sf.ones(700, 1000) * 2.0).exp().sum()
print(w.grad.tolist(), big.item())
"""
COMPILED = """
x = sf.placeholder((None, 64), name="x")
step = sf.compile([x], ((x @ sf.ones(64, 64)).softmax(1).sin()).sort(1)[0])
print(step(sf.ones(3, 64)).tolist(), sf.jit(lambda x: (x.exp() * 2).sum())(sf.ones(500, 500)).item())
"""
TRAINING = """
net = sf.nn.Sequential(sf.nn.Linear(4, 8), sf.nn.ReLU(), sf.nn.Linear(8, 1))
optimizer = sf.optim.Adam(net.parameters(), lr=0.1)
x = sf.ones(16, 4)
for i in range(20):
    optimizer.zero_grad()
    loss = ((net(x) - 1.0) ** 2).mean()
    loss.backward()
    optimizer.step()
print(loss.item() < 10)
"""


@pytest.mark.parametrize("script", [EAGER, COMPILED, TRAINING], ids=["eager", "compiled", "nn"])
def test_a_script_that_ran_before_has_no_llvm(script: str, tmp_path: Path) -> None:
    """Nor what makes text for it, nor masked arrays, which a few functions of NumPy import."""
    looked_for = [
        "llvmlite",
        "numpy.ma",
        "staticflow.native.translate",
        "staticflow.runtime.compiler",
    ]
    program = (
        f"import sys, staticflow as sf\nsf.manual_seed(0)\n{script}\n"
        f"print(*(name for name in {looked_for} if name in sys.modules))"
    )
    environment = {**os.environ, "STATICFLOW_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, check=True, env=environment,
        ).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert outputs[0][:-1] == outputs[1][:-1]
    assert "llvmlite" in outputs[0][-1].split()
    assert outputs[1][-1] == ""
