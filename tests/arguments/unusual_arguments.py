"""Every public callable with one argument replaced by an unusual value: what comes out is a value, or
an error of ours that names the user's line, and a call that fails changes nothing.

``python tests/arguments/unusual_arguments.py --mode eager`` runs all of one mode, in processes whose memory and
time are limited, and prints the faults by where they come from.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from public_calls import PUBLIC
from public_objects import objects
from unusual_values import UNUSUAL
from wrong_arguments import CALLS, Call

import staticflow as sf
from staticflow import pytree
from staticflow.nn.parameter import is_uninitialized
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["MODES", "Fault", "cases", "fault_of", "run_case", "run_isolated"]

MODES = ("eager", "known", "open", "loop", "jit", "public", "objects")
_TABLES = {"public": PUBLIC, "objects": {p.name: p for p in objects()}}

SECONDS = 20
"""What a call may take; few take more than a hundredth of a second."""

MEMORY = 4 << 30

_ROOT = str(Path(sf.__file__).parent)
_HERE = str(Path(__file__).parent)
_BAD_CALLS = {
    "too_long": "arguments that nobody takes",
    "too_short": "the last argument left out",
    "unknown_keyword": "a keyword that nobody has",
    "twice": "the first argument given twice",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What came out where it should not."""

    case: str
    kind: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.case}: {self.kind} at {self.where}: {self.message}"


class _TooLong(BaseException):
    """A call that took more than `SECONDS`."""


def _names(mode: str) -> Iterator[str]:
    for name, call in CALLS.items():
        if mode in ("known", "open") and call.room == "m" and not hasattr(Symbol, call.name):
            continue
        yield name


def cases(mode: str) -> list[str]:
    """The names of all cases of a mode: ``mode:call:argument:value``."""
    found = []
    if mode in _TABLES:
        for name, public in _TABLES[mode].items():
            found += [f"{mode}:{name}:{slot}:{v}" for slot in public.slots() for v in UNUSUAL]
            if "__" not in name and " =" not in name:  # what Python itself calls
                found += [f"{mode}:{name}:call:{how}" for how in _BAD_CALLS]
        return found
    for name in _names(mode):
        replaceable = CALLS[name].replaceable()
        found += [f"{mode}:{name}:{argument}:{v}" for argument in replaceable for v in UNUSUAL]
        found += [f"{mode}:{name}:call:{how}" for how in _BAD_CALLS]
    return found


# -- one case --------------------------------------------------------------------------------------


def run_case(case: str) -> Fault | None:
    """Run a case in this process."""
    mode, _, rest = case.partition(":")
    name, argument, value = rest.rsplit(":", 2)
    try:
        make = _public if mode in _TABLES else _of_ops
        call, arguments = make(mode, name, argument, value)
    except sf.StaticflowError:
        return None  # the valid call has no such form
    before = _snapshot(arguments)
    signal.signal(signal.SIGALRM, _alarm)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except _TooLong:
        if value in ("huge", "int64_max") or ":sf.while_loop" in case:
            return None  # so many parts were asked for, or a loop that never ends
        return Fault(case, "hang", "", f"more than {SECONDS} s")
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        fault = fault_of(case, error)
        lives = "generator" not in value and not re.search(r" =:| used:|^public:tools", case)
        if fault is None and lives and _snapshot(arguments) != before:
            where = _origin(error)
            return Fault(case, "changed", where, f"{type(error).__name__}: {error}"[:300])
        return fault
    else:
        odd = [s for s in _BOOLS if type(getattr(thread.state, s)) is not bool]
        return Fault(case, "state", "", f"not bool: {', '.join(odd)}") if odd else None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _restore()


def _alarm(*_: Any) -> None:
    raise _TooLong


def _restore() -> None:
    """The settings that a valid call of a setter changes."""
    sf.set_default_dtype(sf.float32)
    sf.set_grad_enabled(True)
    sf.set_printoptions(profile="default")
    sf.autograd.set_detect_anomaly(False)
    sf.set_num_threads(1)
    thread.state.inference = False
    thread.state.settle()


def _public(mode: str, name: str, argument: str, value: str) -> tuple[Callable[[], Any], Any]:
    fn, args, kwargs = _TABLES[mode][name].make()
    if argument == "call":
        _misuse(value, args, kwargs)
    elif argument.isdigit():
        args[int(argument)] = UNUSUAL[value]()
    else:
        kwargs[argument] = UNUSUAL[value]()
    owner = getattr(fn, "__self__", fn)  # a module that draws on its way may fail behind that
    return lambda: fn(*args, **kwargs), [owner, args, kwargs]


def _misuse(how: str, args: list[Any], kwargs: dict[str, Any], first: str = "") -> None:
    if how == "too_long":
        args += [object(), object(), object(), object(), object(), object(), object(), object()]
    elif how == "too_short" and args:
        args.pop()
    elif how == "unknown_keyword":
        kwargs["no_such_argument"] = 1
    elif how == "twice" and first and args:
        kwargs[first] = args[0]


def _of_ops(mode: str, name: str, argument: str, value: str) -> tuple[Callable[[], Any], Any]:
    call: Call = CALLS[name]
    if mode in ("known", "open"):
        call = call.of_symbols()
    arguments = call.arguments()
    if mode == "open":
        arguments = pytree.map_tree(_opened, arguments)
    if mode in ("known", "open"):
        call.run(arguments)  # a form that symbols do not have is no fault of the value's
    if argument == "call":
        args, kwargs = _positional(call, arguments)
        _misuse(value, args, kwargs, call.parameters[0].name if call.parameters else "")
        return lambda: call.fn(*args, **kwargs), [args, kwargs]
    arguments[argument] = UNUSUAL[value]()
    if mode == "loop":
        carry = sf.placeholder((3,))

        def body(i: Any, c: Any) -> Any:
            call.run(arguments)
            return c

        return lambda: sf.fori_loop(0, 2, body, carry), arguments
    if mode == "jit":
        jitted = sf.jit(lambda c: (call.run(arguments), c)[1])
        return lambda: jitted(sf.ones(3)), arguments
    return lambda: call.run(arguments), arguments


def _opened(value: Any) -> Any:
    return sf.placeholder((None,) * value.ndim, value.dtype) if isinstance(value, Symbol) else value


def _positional(call: Call, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    named: dict[str, Any] = {}
    for p in call.parameters:
        value = arguments[p.name]
        if p.kind is p.VAR_POSITIONAL:
            args += value if isinstance(value, tuple) else [value]
        elif p.kind is p.KEYWORD_ONLY:
            named[p.name] = value
        elif p.kind is not p.VAR_KEYWORD:
            args.append(value)
    return args, named


# -- what a failed call must leave as it was -----------------------------------------------------


_BOOLS = ("anomaly", "inference", "quiet", "recording", "tracing")
_SWITCHES = ("anomaly", "inference", "quiet", "recording", "regions", "roots", "tracing",
             "types_only", "within", "usual", "noted", "saved_hooks", "guards")  # fmt: skip


def _snapshot(arguments: Any) -> Any:
    switches = tuple(repr(getattr(thread.state, s)) for s in _SWITCHES)
    owner = arguments[0] if isinstance(arguments, list) else None
    drawn = b"" if isinstance(owner, sf.nn.Module) else sf.get_rng_state().numpy().tobytes()
    return switches, drawn, _frozen(arguments)


def _frozen(value: Any, depth: int = 0) -> Any:
    """What a value holds, as something that compares."""
    if is_uninitialized(value):
        return repr(value)
    if isinstance(value, sf.Tensor):
        grad = value.grad if value.is_leaf else None
        content = value.detach().numpy().tobytes() if value.device.type == "cpu" else b""
        return (tuple(value.shape), str(value.dtype), content, value._version, value.requires_grad,
                None if grad is None else grad.numpy().tobytes())  # fmt: skip
    if isinstance(value, Symbol):
        return id(value.node)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.tobytes()
    if isinstance(value, sf.nn.Module):
        values = value.state_dict().items()
        state = sorted(
            (k, repr(v) if is_uninitialized(v) else v.numpy().tobytes()) for k, v in values
        )
        return state, value.training
    if isinstance(value, sf.optim.Optimizer):
        return repr(value.state_dict())
    if isinstance(value, dict) and depth < 4:
        return [(repr(k), _frozen(v, depth + 1)) for k, v in value.items()]
    if isinstance(value, list | tuple) and depth < 4:
        return [_frozen(v, depth + 1) for v in value]
    return id(type(value))


# -- what an error must be -------------------------------------------------------------------------


_USERS = "public_"
"""In the place of errors of functions of the caller's, which stay what they are."""

_ARITY = re.compile(
    r"missing \d+ required|unexpected keyword|takes (from )?\d+.* argument|takes no|multiple values"
    r"|got some positional-only|takes at most|: it takes |unbound method .* needs an argument"
)
_ATTRIBUTE = re.compile(
    r"has no setter|has no attribute|object attribute .* is read-only|has no '|can't set attribute"
    r"|cannot assign to field|is immutable"
)
_OPERATOR = re.compile(r"unsupported operand type|not supported between instances|bad operand type")


def fault_of(case: str, error: BaseException) -> Fault | None:
    """What is wrong with an error, if it is none of ours in our words."""
    message = str(error)
    where = _origin(error)
    if isinstance(error, sf.StaticflowError):
        if "public:Program" not in case and not re.search(r"at \S+\.py:\d+", message):
            return Fault(case, "no line", where, message[:300])
        blamed = _blamed(case, message)
        return Fault(case, "blames another", where, message[:300]) if blamed else None
    if (isinstance(error, ValueError) and message == "given as an argument") or _USERS in where:
        return None
    if "assert_close" in case and isinstance(error, AssertionError):
        return None  # what it is for
    if isinstance(error, SystemExit) and "tools." in case:
        return None  # a command line that is wrong, and said to be so
    if isinstance(
        error, KeyError | AttributeError | BufferError | NotImplementedError
    ) and re.search(r", at \S+\.py:\d+", message):
        return None  # what Python's protocols ask for, in words
    if message.startswith("cannot pickle") and " =" in case:
        return None  # of a copy of what was assigned
    if isinstance(error, TypeError) and "_setter.<locals>" in message:
        return None  # assignment takes one value
    if isinstance(error, TypeError) and _ARITY.search(message):
        private = re.match(r"_|[\w.]*\._(?!_)|<lambda>|[\w.]*<locals>", message)
        return (
            None
            if "<lambda>" in message or not private
            else Fault(case, "TypeError", where, message[:300])
        )
    if isinstance(error, MemoryError) and re.search(r", at \S+\.py:\d+", message):
        return None
    if isinstance(error, AttributeError) and _ATTRIBUTE.search(message) and " =" in case:
        return None
    if isinstance(error, TypeError) and _OPERATOR.search(message) and not where:
        return None
    return Fault(case, type(error).__name__, where, message[:300])


def _blamed(case: str, message: str) -> bool:
    """Whether an error calls an argument wrong that is not the one that was replaced."""
    found = re.match(r"(\w+): '(\w+)[^']*' must be ", message)
    _, name, argument, *_ = *case.split(":"), "", ""
    if found is None or argument == "call" or name not in CALLS:
        return False
    call = CALLS[name]
    own = call.name.strip("_") == found[1].strip("_")
    return own and found[2] in {p.name for p in call.parameters} - {argument}


def _origin(error: BaseException) -> str:
    """The innermost line of ours, or of the caller's function, that an error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f.filename.startswith(_ROOT)]
    own = [f for f in frames if f.filename.startswith(_HERE)]
    if not ours:
        return ""
    if own and frames.index(own[-1]) > frames.index(ours[-1]) and "unusual" not in own[-1].filename:
        return f"{Path(own[-1].filename).name} in {own[-1].name}"
    last = ours[-1]
    return f"{last.filename[len(_ROOT) + 1 :]}:{last.lineno} in {last.name}"


# -- all of them, in processes that may die --------------------------------------------------------


def run_isolated(names: list[str]) -> list[Fault]:
    """Run cases in another process; one that it does not survive is a fault of its own."""
    faults: list[Fault] = []
    at = 0
    while at < len(names):
        child = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(_ROOT).parent), _HERE])},
        )  # fmt: skip
        assert child.stdin is not None and child.stdout is not None
        part = names[at : at + 5000]
        child.stdin.write("\n".join(part))
        child.stdin.close()
        done = 0
        for line in child.stdout:
            if line.startswith("{"):
                faults.append(Fault(**json.loads(line)))
            elif line.startswith("done"):
                done += int(line.split()[1])
        code = child.wait()
        if done < len(part):
            faults.append(Fault(part[done], "crash", "", f"exit status {code}"))
            done += 1
        at += done
    return faults


def _work() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the calls print
    os.chdir(tempfile.mkdtemp())  # where they write
    for name in sys.stdin.read().split("\n"):
        fault = run_case(name)
        if fault is not None:
            print(json.dumps({s: getattr(fault, s) for s in Fault.__slots__}), file=report)
        print("done 1", file=report, flush=True)


def main() -> None:
    """Run a mode, print the faults by where they come from."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        _work()
        return
    names = [c for c in cases(options.mode) if re.search(options.only, c)][:: options.every]
    faults = run_isolated(names)
    groups = collections.defaultdict(list)
    for fault in faults:
        groups[fault.kind, fault.where].append(fault)
    for (kind, where), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"{len(found):5} {kind} at {where}")
        for fault in found[:: max(1, len(found) // 3)][:3]:
            print(f"        {fault.case}: {fault.message}")
    print(f"{len(names)} cases, {len(faults)} faults in {len(groups)} classes")


if __name__ == "__main__":
    main()
