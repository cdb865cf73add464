"""Object files of AArch64 in memory: what their instructions refer to, read from these bit by bit,
since they run on such a machine only (there `test_linker` runs them)."""

from __future__ import annotations

import ctypes
import os
import struct

import llvmlite.binding as llvm
import pytest

from staticflow.errors import CompileError
from staticflow.runtime import relocations
from staticflow.runtime.linker import LinkedCode, link_object

TEXT = """
@far = external global i64
@table = constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@address = constant ptr @far
declare i64 @given(i64)
define i64 @near(i64 %x) noinline {
  %y = mul i64 %x, 3
  ret i64 %y
}
define double @mixed(i64 %i) {
  %q = getelementptr i64, ptr @table, i64 %i
  %a = load i64, ptr %q
  %b = load i64, ptr @far
  %c = call i64 @given(i64 %a)
  %d = call i64 @near(i64 %b)
  %e = add i64 %c, %d
  %f = sitofp i64 %e to double
  %g = fadd double %f, 0.1234
  ret double %g
}
"""
FAR = {"far": 0x7654_3210_FEDC_BA98, "given": 0x0123_4567_89AB_CDE0}


def emit_for_arm(model: str) -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(opt=1, jit=True, codemodel=model)
    return bytes(machine.emit_object(llvm.parse_assembly(TEXT)))


@pytest.fixture
def on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    name = os.uname_result(("Linux", "", "", "", "aarch64"))
    monkeypatch.setattr(os, "uname", lambda: name)


def word_at(address: int, width: int = 4) -> int:
    return int.from_bytes(ctypes.string_at(address, width), "little")


def signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def read(start: int) -> tuple[list[int], list[int]]:
    """The functions that the code at an address calls, through what jumps to them, and what it
    loads by addresses that it makes, of 8 bytes each, until it returns."""
    made: dict[int, int] = {}
    calls, loads = [], []
    here = start
    while (word := word_at(here)) != 0xD65F03C0:  # ret
        to, of = word & 31, word >> 5 & 31
        if word >> 31 == 1 and word >> 24 & 31 == 0b10000:  # adrp
            pages = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            made[to] = (here & ~0xFFF) + (pages << 12)
        elif word >> 23 in (0b110100101, 0b111100101):  # movz, movk
            shift = 16 * (word >> 21 & 3)
            kept = made.get(to, 0) & ~(0xFFFF << shift) if word >> 29 & 1 else 0
            made[to] = kept | (word >> 5 & 0xFFFF) << shift
        elif word >> 22 in (0b1111100101, 0b1111110101) and of in made:  # ldr of x or d
            value = made[of] + 8 * (word >> 10 & 0xFFF)
            if made[of] == FAR["far"]:
                loads.append(FAR["far"])
            else:
                loads.append(word_at(value, 8))
                made[to] = loads[-1]
        elif word >> 26 == 0b100101:  # bl
            target = here + 4 * signed(word & 0x3FFFFFF, 26)
            if ctypes.string_at(target, 8) == struct.pack("<2I", 0x58000050, 0xD61F0200):
                target = word_at(target + 8, 8)
            calls.append(target)
        here += 4
    return calls, loads


@pytest.mark.parametrize("model", ["jitdefault", "small"])
def test_what_instructions_refer_to(on_arm: None, model: str) -> None:
    linked = link_object(emit_for_arm(model), ["mixed", "near", "table", "address"], FAR)
    calls, loads = read(linked.address("mixed"))
    assert calls == [FAR["given"], linked.address("near")]
    number = struct.unpack("<q", struct.pack("<d", 0.1234))[0]
    assert sorted(loads) == sorted([linked.address("table"), FAR["far"], FAR["far"], number])
    table = [word_at(linked.address("table") + 8 * i, 8) for i in range(4)]
    assert table == [10, 20, 30, 40]
    assert word_at(linked.address("address"), 8) == FAR["far"]


def test_files_of_another_machine_and_other_relocations_are_refused(
    on_arm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = emit_for_arm("jitdefault")
    for kinds, empty in (("_JUMPS", ()), ("_PAGES", ()), ("_LOW", {}), ("_PARTS", {})):
        with monkeypatch.context() as without:
            without.setattr(relocations, kinds, empty)
            with pytest.raises(CompileError, match="relocations of kind"):
                load(data)
    monkeypatch.undo()
    if os.uname().machine != "aarch64":
        with pytest.raises(CompileError, match="no object file of this machine"):
            load(data)


def load(data: bytes) -> LinkedCode:
    return link_object(data, ["mixed"], FAR)


def test_what_is_too_far_away_is_refused(on_arm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distance beyond its field is no other distance."""
    monkeypatch.setattr(relocations, "_WORDS", [(0, 1)])
    with pytest.raises(CompileError, match="too far away"):
        load(emit_for_arm("jitdefault"))
