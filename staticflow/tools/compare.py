"""``python -m staticflow compare``: one model in both modes, side by side."""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

from staticflow.errors import ArgumentError
from staticflow.tools.numbers import natural_int, positive_int
from staticflow.tools.printing import print_result

__all__ = ["add_arguments", "run"]

DIGITS = Path(__file__).with_name("examples") / "digits.py"
DTYPES = ("float32", "float64", "float16", "bfloat16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("target", nargs="?", metavar="FILE.py:MODEL", default=f"{DIGITS}:Perceptron",
        help="a class of nn.Module or a function that makes one, such as my_model.py:Net or "
        '"my_model.py:Net(hidden=64)"; by default a classifier of handwritten digits')  # fmt: skip
    add("--input", action="append", metavar="TYPE", dest="inputs", help="once for each input: such "
        'as "f32[batch=32, 784]" or "labels: i64[batch] < 10"')  # fmt: skip
    add("--loss", metavar="NAME", help="such as cross_entropy, mse_loss or none")
    add("--optimizer", metavar="NAME", help='such as adam, "sgd(momentum=0.9)" or none')
    add("--lr", type=_rate, metavar="RATE", help="the learning rate of the optimiser")
    add("--steps", type=positive_int, default=100, help="steps in either mode (100)")
    add("--seed", type=natural_int, default=0, help="of parameters, data and draws (0)")
    add("--dtype", choices=DTYPES, default="float32", help="of floating parameters and inputs")
    add("--sweep", metavar="SIZES", help="time both modes at each of some open sizes and arguments "
        'of the model, such as "batch=1,8,64 width=16,256"')  # fmt: skip
    add("--processes", metavar="COUNTS", type=_counts, default=(), help="time the compiled step on "
        "so many processes, too, each with its part of every batch, such as 2,4 (needs the extra "
        "distributed)")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write all that was found there too")
    add("--html", type=Path, metavar="FILE", help="write all that was found there too, as a page "
        "with charts (needs the extra report)")  # fmt: skip
    add("--quick", action="store_true", help="leave out what takes more than a few seconds")


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"a learning rate is a number from 0 on, not {text}")
    return value


def _counts(text: str) -> tuple[int, ...]:
    return tuple(positive_int(word) for word in text.split(","))


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the exit status is 1 if the modes disagree or there is no graph, 130 after
    an interrupt."""
    import json

    from staticflow.comparison.job import Request
    from staticflow.comparison.output import Output
    from staticflow.comparison.progress import progress_for
    from staticflow.comparison.requests import job_of
    from staticflow.comparison.run import (
        FailedComparison,
        InterruptedComparison,
        Options,
        compare_job,
    )
    from staticflow.comparison.scaling import check_counts
    from staticflow.comparison.text import format_comparison

    counts = check_counts(arguments.processes)
    request = Request(
        arguments.target, tuple(arguments.inputs or ()), arguments.loss, arguments.optimizer,
        arguments.lr, arguments.steps, arguments.seed, arguments.dtype, arguments.sweep,
    )  # fmt: skip
    with ExitStack() as outputs:
        json_file = None
        if arguments.json is not None:
            json_file = outputs.enter_context(Output(arguments.json, "the JSON"))
        html_file = None
        if arguments.html is not None:
            from staticflow.comparison.page import check_report, render_page

            check_report()
            html_file = outputs.enter_context(Output(arguments.html, "the page"))
        if json_file is not None and html_file is not None and json_file.path == html_file.path:
            raise ArgumentError(
                f"--json and --html both name {str(arguments.json)!r}; give them two files"
            )
        with redirect_stdout(sys.stderr):  # what the model's file prints is no part of the table
            job = job_of(request)
        try:
            record = compare_job(job, Options(arguments.quick, processes=counts), progress_for())
        except InterruptedComparison as interrupt:
            print(format_comparison(interrupt.record))
            print("interrupted; no file was written", file=sys.stderr)
            return 130
        except FailedComparison as failure:
            if failure.record.eager.losses:
                print(format_comparison(failure.record))
            raise
        failed = print_result(format_comparison(record))
        if json_file is not None:
            json_file.write(json.dumps(record.as_dict(), indent=2, allow_nan=False) + "\n")
        if html_file is not None:
            html_file.write(render_page(record))
        if failed is not None:
            raise failed  # once the files are there
    return 0 if record.has_passed else 1
