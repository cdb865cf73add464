"""Native code that finds the line of the user that is running."""

from __future__ import annotations

from staticflow.eager.fast.classes import Entry, users
from staticflow.eager.fast.objects import pair
from staticflow.eager.fast.records import CODES, KnownCode
from staticflow.native import cpython
from staticflow.native.cpython import NONE, TRUE, Code, Tuple
from staticflow.native.language import (
    Object,
    Owned,
    Row,
    address,
    constant,
    drop,
    hold,
    logical_shift,
    native,
    space,
    take,
)

__all__ = ["find_line", "user_line", "write_line"]

codes = constant(Row[KnownCode], "codes")


@native
def is_users_code(code: Code) -> int:
    """Whether code is the user's, and not staticflow's own, 1 or 0; -1 if an error was raised.

    Python is asked once for each code, as long as no other takes its place.
    """
    known = codes[logical_shift(address(code), 4) & CODES - 1]
    if code is known.code:
        return known.users
    arguments = space(Object, 1)
    arguments[0] = code
    said = cpython.PyObject_Vectorcall(users, arguments, 1, None)
    if said is None:
        return -1
    answer = int(said is TRUE)
    drop(said)
    known.users = answer
    before = take(known.code)
    known.code = hold(code)
    drop(before)
    return answer


@native
def find_line(instruction: Row[int]) -> Owned[Object | None]:
    """The user's code that is running, and its instruction: that of the innermost frame that does
    not run staticflow's own code; None and 0 where there is none. Null with an error set."""
    frame = hold(cpython.PyEval_GetFrame())
    while frame is not None:
        code = cpython.PyFrame_GetCode(frame)
        answer = is_users_code(code)
        if answer == 1:
            instruction[0] = cpython.PyFrame_GetLasti(frame)
            drop(frame)
            return code
        drop(code)
        if answer != 0:
            drop(frame)
            return None
        back = cpython.PyFrame_GetBack(frame)
        drop(frame)
        frame = back
    if cpython.PyErr_Occurred() is not None:  # there was no memory for the frame
        return None
    instruction[0] = 0
    return hold(NONE)  # called by C


@native
def user_line() -> Owned[Tuple | None]:
    """The user's code and its instruction as a row; null with an error set."""
    instruction = space(int, 1)
    code = find_line(instruction)
    if code is None:
        return None
    at = cpython.PyLong_FromLongLong(instruction[0])
    if at is None:
        drop(code)
        return None
    return pair(code, at)


@native
def write_line(entry: Entry) -> bool:
    """Write the user's line into an entry; false with an error set."""
    instruction = space(int, 1)
    code = find_line(instruction)
    if code is None:
        return False
    at = cpython.PyLong_FromLongLong(instruction[0])
    if at is None:
        drop(code)
        return False
    entry.code = code
    entry.at = at
    return True
