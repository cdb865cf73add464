"""The main job and the command line around it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from staticflow.comparison import refusal, run
from staticflow.comparison.progress import progress_for
from staticflow.comparison.record import SCHEMA
from staticflow.comparison.source import load_file
from staticflow.tools import digits as digits_module
from staticflow.tools.cli import COMMANDS, main
from staticflow.tools.compare import DIGITS
from staticflow.tools.digits import MissingExtraError, load_digits, shuffle_batches

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "comparison" / "models.py"
INSTALL = 'pip install "staticflow[examples]"'
Capture = pytest.CaptureFixture[str]


def compare(*words: object) -> int:
    return main(["compare", *map(str, words), "--quick"])


def lines_of(text: str) -> list[str]:
    """What is not progress."""
    return [line for line in text.splitlines() if not line.startswith("compare: ")]


# -- what it does ----------------------------------------------------------------------------------


def test_without_a_model_it_compares_the_digits(tmp_path: Path, capsys: Capture) -> None:
    path, page = tmp_path / "report.json", tmp_path / "report.html"
    assert compare("--steps", 25, "--json", path, "--html", page) == 0
    printed = capsys.readouterr().out
    assert "AGREEMENT: they agree" in printed and "Perceptron" in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert "digits.py:" in printed and "<unknown line>" not in printed
    written = json.loads(path.read_text())
    assert written["schema"] == SCHEMA and written["agreement"]["agree"] is True
    kernels = written["static"]["roofline"]["kernels"]  # copies between arrays are none
    assert f"KERNELS OF THE COMPILED STEP: {kernels}, the 5" in printed
    held_out = [written[mode]["scores"]["held-out accuracy"] for mode in ("eager", "static")]
    assert held_out[0] == held_out[1] > 0.7 and "held-out accuracy" in printed
    assert "Evaluated after training" in page.read_text()
    assert len(written["static"]["losses"]) == len(written["eager"]["losses"]) == 25
    assert written["compilations"]["static"] == {"N=64": 1, "N=29": 1}  # the end of an epoch
    assert written["eager"]["losses"][-1] < 0.5 * written["eager"]["losses"][0]
    inside = page.read_text().split('id="record">')[1].split("</script>")[0]
    assert json.loads(inside) == written
    assert sorted(tmp_path.iterdir()) == [page, path]


def test_the_model_of_the_package_hides_no_module_of_pythons() -> None:
    load_file(f"{DIGITS}:Perceptron")  # beside which there is a numbers.py
    assert str(DIGITS.parent) not in sys.path


def test_a_model_of_ones_own(capsys: Capture) -> None:
    words = (
        "--input",
        "f32[N=2, 3]",
        "--loss",
        "cross_entropy",
        "--optimizer",
        "adam",
        "--lr",
        0.1,
    )
    assert compare(f"{MODELS}:Plain(hidden=4)", *words, "--steps", 2) == 0
    printed = " ".join(capsys.readouterr().out.split())  # a long path wraps it elsewhere
    assert "Plain(hidden=4)" in printed and "target: i64[N=2] < 2" in printed
    assert "Adam, lr 0.1" in printed and "26 parameters" in " ".join(printed.split())


def test_a_model_that_is_no_graph_gives_status_1(capsys: Capture) -> None:
    assert compare(f"{MODELS}:Branching", "--steps", 2) == 1
    assert "models.py:" in capsys.readouterr().out


# -- mistakes --------------------------------------------------------------------------------------

PLAIN = f"{MODELS}:Plain"
MISTAKES = {
    "no_file.py:Net": "there is no file 'no_file.py'",
    "no_module:Net": "names neither a file",
    f"{MODELS}:Nett": "has no 'Nett'; it has Plain",
    f"{MODELS}": "does not say which model",
    f"{MODELS}:NUMBER": "is an int; it must be a class of nn.Module",
    f"{MODELS}:no_model": "gives an int",
    f"{MODELS}:Plain(": "must be a name",
    f"{MODELS}:Plain(width=3)": "unexpected keyword argument 'width'",
    f"{PLAIN} --input f32[4,5] --input f32[4,2]": "the columns of f32[4, 5]",
    f"{PLAIN} --input f32[4": "is not an input",
    f"{PLAIN} --input f32[4,3] --loss entropy": "there is no loss 'entropy'",
    f"{PLAIN} --input f32[4,3]": "give one input more",
    f"{PLAIN} --optimizer adm": "there is no optimiser 'adm'",
    f"{PLAIN} --optimizer sgd(lr=-1)": "lr",
    f"{PLAIN} --lr 0.1": "its own learning rate",
    f"{PLAIN} --lr nan": "a learning rate is a number from 0 on, not nan",
    f"{PLAIN} --lr fast": "'fast' is not a number",
    f"{PLAIN} --steps -1": "at least 1 is needed, not -1",
    f"{PLAIN} --steps 0": "at least 1 is needed, not 0",
    f"{PLAIN} --steps 1.5": "'1.5' is not a whole number",
    f"{PLAIN} --steps {10**30}": "at most 10,000,000 steps",
    ".:Net": "names neither a file",
    f"{PLAIN} --json \0": "null byte",
    f"{PLAIN} --seed -1": "at least 0 is needed",
    f"{PLAIN} --dtype int8": "invalid choice",
    f"{PLAIN} --stepz 3": "unrecognized arguments",
    f"{PLAIN} --json /no/such/folder/x.json": "cannot be written to '/no/such/folder/x.json'",
    f"{PLAIN} --json {MODELS.parent}": "Is a directory",
    f"{PLAIN} --json x.out --html x.out": "both name 'x.out'; give them two files",
    f"{MODELS}:needs": "needs needs width to be made",
    f"{MODELS}:Silent --loss mse": "the model gives NoneType, in which no tensor is",
    f"{MODELS}:Counts --input f32[4,3] --loss sum": "has no gradient by any parameter",
    f"{PLAIN} --html /no/such/folder/x.html": "the page cannot be written to '/no/such/folder/",
    f"{PLAIN} --input f32[N={10**14},3] --input f32[N,2]": f"inputs (x: f32[N={10**14}, 3], y: ",
    f"{PLAIN} --input f32[N={10**30},3] --input f32[N,2]": "cannot be drawn: ",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line(
    words: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "run_rounds", None)  # it is found before the work
    try:
        status = compare(*words.split(" "))
    except SystemExit as end:
        status = int(str(end.code))
    said = capsys.readouterr()
    lines = lines_of(said.err)
    assert status == 2 and len(lines) == 1 and MISTAKES[words] in lines[0], said.err
    assert not said.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def f(:", ":1: "),
        ("import no_such_package", "No module named 'no_such_package'"),
        ("x = 1\nraise ValueError('oh')", "ValueError: oh, at"),
        ("import sys; sys.exit(3)", "ends the process"),
        ("", "it has no class of nn.Module"),
    ],
)
def test_a_file_that_cannot_be_run(text: str, says: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(text)
    assert compare(f"{path}:Net") == 2
    (line,) = lines_of(capsys.readouterr().err)
    assert says in line and "wrong.py" in line


def test_a_model_that_fails_later_loses_nothing(tmp_path: Path, capsys: Capture) -> None:
    status = compare(f"{MODELS}:Tired", "--steps", 4, "--json", tmp_path / "report.json")
    said = capsys.readouterr()
    (line,) = lines_of(said.err)
    assert status == 2 and not list(tmp_path.iterdir())
    number = MODELS.read_text().split("# AFTER SOME STEPS")[0].count("\n") + 1
    assert "fails in the stage '4 steps in either mode': RuntimeError: tired, at" in line
    assert line.endswith(f"models.py:{number}") and "INTERRUPTED in 4 steps" in said.out


def test_what_a_model_prints_is_counted_and_not_shown(capsys: Capture) -> None:
    assert compare(f"{MODELS}:Printing", "--steps", 2) == 0
    printed = capsys.readouterr().out
    assert "x has" not in printed
    assert "Note: the model printed" in printed


def test_without_standard_error_progress_is_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    progress_for().stage("one")


@pytest.mark.campaign
def test_a_terminal_without_all_letters_and_a_process_without_standard_error() -> None:
    words = [sys.executable, "-m", "staticflow", "compare", PLAIN, "--steps", "2", "--quick"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "AGREEMENT: they agree" in done.stdout


def test_what_is_not_finished_leaves_the_file_as_it_was(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(job: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "report.json"
    path.write_text("of before")
    monkeypatch.setattr(run, "try_statically", interrupt)
    assert compare(PLAIN, "--json", path) == 130
    said = capsys.readouterr()
    assert "INTERRUPTED in tracing" in said.out and "interrupted; no file" in said.err
    assert path.read_text() == "of before" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("output", "status"), [("| true", 141), ("> /dev/full", 2)])
def test_output_that_nobody_takes_loses_no_file(output: str, status: int, tmp_path: Path) -> None:
    words = f"{PLAIN} --steps 1 --quick --json {tmp_path}/report.json"
    line = f"{{ {sys.executable} -m staticflow compare {words}; echo $? > {tmp_path}/status; }}"
    done = subprocess.run(
        ["sh", "-c", f"{line} {output}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert int((tmp_path / "status").read_text()) == status
    assert json.loads((tmp_path / "report.json").read_text())["agreement"]["agree"] is True
    said = lines_of(done.stderr)
    assert said == ([] if status == 141 else ["[Errno 28] No space left on device"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_to_end_prints_what_was_found(number: int, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    words = [PLAIN, "--steps", "1000000", "--json", str(path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "staticflow", "compare", *words], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while "1000000 steps" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.3)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert "INTERRUPTED in 1000000 steps" in out and "STEADY STEP" in out
    assert not list(tmp_path.iterdir())


def test_without_a_package_for_bars_lines_are_printed(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(refusal, "TRACES", 1)
    assert compare(PLAIN, "--steps", 1) == 0
    assert "compare: 1 steps in either mode ..." in capsys.readouterr().err


def test_without_the_data_it_says_what_to_install(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert compare("--steps", 1) == 2
    assert INSTALL in capsys.readouterr().err
    with pytest.raises(ImportError) as caught:
        load_digits()
    assert isinstance(caught.value, MissingExtraError) and INSTALL in str(caught.value)


def test_an_unknown_command_is_explained(capsys: Capture) -> None:
    assert main(["campare"]) == 2
    text = capsys.readouterr().err
    assert "no command 'campare'" in text
    rows = [line.split(maxsplit=1) for line in text.splitlines()[1:]]
    assert rows == [[name, c.help] for name, c in COMMANDS.items()]
    assert main([]) == 2 and "commands:" in capsys.readouterr().out


# -- the data --------------------------------------------------------------------------------------


def test_the_digits_are_split_by_the_seed() -> None:
    digits = load_digits("float64", seed=1)
    assert digits.train_images.shape == (1437, 64) and digits.test_images.shape == (360, 64)
    assert digits.train_images.min() == 0.0 and digits.train_images.max() == 1.0
    assert digits.train_labels.dtype == np.int64 and set(digits.test_labels) == set(range(10))
    assert np.array_equal(digits.test_images, load_digits("float64", seed=1).test_images)
    assert not np.array_equal(digits.test_images, load_digits("float64", seed=2).test_images)


def test_the_digits_are_read_without_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """As scikit-learn reads them, which is asked where it has no such file."""
    monkeypatch.setattr(digits_module, "extra", lambda name: pytest.fail("a second of imports"))
    read = load_digits("float64")
    monkeypatch.undo()
    monkeypatch.setattr(Path, "is_file", lambda path: path.name != "digits.csv.gz")
    asked = load_digits("float64")
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
        a, b = getattr(read, name), getattr(asked, name)
        assert a.dtype == b.dtype and np.array_equal(a, b)


def test_batches_visit_each_row_once_an_epoch() -> None:
    batches = list(islice(shuffle_batches(10, 4, seed=0), 6))
    assert [len(b) for b in batches] == [4, 4, 2] * 2
    first, second = np.concatenate(batches[:3]), np.concatenate(batches[3:])
    assert sorted(first) == sorted(second) == list(range(10)) and list(first) != list(second)


def test_info_as_a_process() -> None:
    command = [sys.executable, "-m", "staticflow", "info"]
    environment = {**os.environ, "STATICFLOW_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    for name in ("staticflow", "Python", "LLVM", "numpy", "safetensors", "extras", "CPU", "cores"):
        assert name in rows
    assert rows["threads"] == "1" and "STATICFLOW_NUM_THREADS=1" in rows["environment"]
    assert rows["cache"] and rows["GPU"] and "native" in rows["fast"]
