"""``python -m staticflow plan-cluster``: what a process of a mesh would do and send."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from staticflow.errors import ArgumentError

if TYPE_CHECKING:
    from staticflow.measure.devices import Device
    from staticflow.measure.machine import Machine

__all__ = ["add_arguments", "run"]

LATENCY, BANDWIDTH = 20.0, 10.0
"""Microseconds of a message and gigabytes sent in a second, of which nothing is said."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, the mesh, and what messages cost."""
    parser.add_argument(
        "target",
        metavar="FILE.py:FUNCTION",
        help="a function of a mesh that gives inputs, outputs and updates, as for sf.compile",
    )
    parser.add_argument("--mesh", required=True, metavar="data=64,model=8", help="its axes")
    parser.add_argument(
        "--sizes", default="", metavar="x_0=512", help="unknown sizes; those not given are 64"
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="rates as a data sheet has them: A100, H100 or H200 (this machine's, on one thread)",
    )
    parser.add_argument(
        "--calibrate",
        metavar="1,2",
        help="run the program on so many processes of this machine, and say how far off that is",
    )
    parser.add_argument(
        "--latency", type=float, help=f"microseconds that a message takes ({LATENCY:.0f})"
    )
    parser.add_argument(
        "--bandwidth",
        type=float,
        help=f"gigabytes that a process sends a second (the device's, else {BANDWIDTH:.0f})",
    )
    parser.add_argument(
        "--flops", type=float, help="billions of operations on floats a second (the device's)"
    )
    parser.add_argument(
        "--memory", type=float, help="gigabytes read and written a second (the device's)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the plan of the first process, whose parts are the largest."""
    from staticflow.measure.tables import table
    from staticflow.measure.units import bytes_in_words, flops_in_words, seconds_in_words
    from staticflow.tools.calibration import calibrate
    from staticflow.tools.rank_plan import plan_rank

    axes = _read_numbers(arguments.mesh, "--mesh")
    sizes = _read_numbers(arguments.sizes, "--sizes") if arguments.sizes else {}
    device, counts = _device(arguments), _counts(arguments)
    plan = plan_rank(arguments.target, axes, sizes)
    rates = _rates(arguments, device)
    sent = device.sent_per_second / 1e9 if device else BANDWIDTH
    cost = (
        (LATENCY if arguments.latency is None else arguments.latency) * 1e-6,
        1 / ((sent if arguments.bandwidth is None else arguments.bandwidth) * 1e9),
    )
    rows = [
        ["processes", f"{plan.mesh.size}, {plan.mesh}"],
        [
            "tensors",
            f"{bytes_in_words(plan.own)} of {bytes_in_words(plan.whole)} on each, with states",
        ],
        ["memory of a call", bytes_in_words(plan.peak)],
    ]
    if device:
        rows += _describe(device, plan.own + plan.peak)
    print("\n".join([*table(rows, "<<"), "", *plan.lines(cost)]))
    flops, touched, least = plan.work(rates)
    messages = plan.message_seconds(cost)
    print(
        f"kernels {flops_in_words(flops)} and {bytes_in_words(touched)} a call, at least "
        f"{seconds_in_words(least)}; with all messages {seconds_in_words(least + messages)}"
    )
    if counts:
        found = calibrate(arguments.target, [*axes], sizes, counts, rates)
        print("\n".join(["", *found.lines]))
        expected = least * found.factor + messages
        off = "no other was run" if found.error is None else f"off by up to {found.error:.0%} here"
        print(
            f"kernels by that factor, and all messages: {seconds_in_words(expected)} a call on "
            f"{plan.mesh.size} processes with a processor each; such predictions: {off}"
        )
    return 0


def _device(arguments: argparse.Namespace) -> Device | None:
    from staticflow.measure.devices import DEVICES

    name = arguments.device
    if name is not None and name not in DEVICES:
        raise ArgumentError(f"plan-cluster: --device is {name}; there are {', '.join(DEVICES)}")
    return DEVICES[name] if name else None


def _counts(arguments: argparse.Namespace) -> list[int]:
    words = arguments.calibrate.split(",") if arguments.calibrate else []
    if not all(word.isdecimal() and int(word) for word in words):
        raise ArgumentError(
            f"plan-cluster: --calibrate is {arguments.calibrate}; it has numbers of processes, as "
            "1,2"
        )
    if words and (arguments.device or arguments.flops or arguments.memory):
        raise ArgumentError(
            "plan-cluster: --calibrate measures this machine, and other rates are given; leave one "
            "of these out"
        )
    return [int(word) for word in words]


def _rates(arguments: argparse.Namespace, device: Device | None) -> Machine:
    """What a process computes and moves in a second: as given, as of the device, or as this machine
    does on one thread."""
    from staticflow.measure.machine import machine

    flops, memory = arguments.flops, arguments.memory
    if device:
        flops = device.flops_per_second / 1e9 if flops is None else flops
        memory = device.bytes_per_second / 1e9 if memory is None else memory
    here = machine(1, measure=flops is None or memory is None)
    if flops is not None:
        here = replace(here, flops_per_second=flops * 1e9)
    if memory is not None:
        here = replace(here, bytes_per_second=memory * 1e9, bandwidth=())
    return here


def _describe(device: Device, needed: int) -> list[list[str]]:
    from staticflow.measure.units import bytes_in_words, flops_in_words

    flops, memory = flops_in_words(device.flops_per_second), device.bytes_per_second / 1e12
    fits = "too much" if needed > device.memory else "they fit"
    return [
        ["device", f"{device.name}: {flops} and {memory:.2f} TB a second, by its data sheet"],
        ["memory of that", f"{bytes_in_words(needed)} of {bytes_in_words(device.memory)}: {fits}"],
    ]


def _read_numbers(text: str, option: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in text.split(","):
        name, _, number = word.partition("=")
        if name in found:
            raise ArgumentError(f"plan-cluster: {option} has {name!r} twice; give it once")
        if not name.isidentifier() or not number.isdecimal() or int(number) < 1:
            raise ArgumentError(
                f"plan-cluster: {option} has {word!r}; it has names with integers from 1 on, as "
                "data=64,model=8"
            )
        found[name] = int(number)
    return found
