"""Every example runs: what trains learns, what shows something prints it."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from statistics import mean

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SHOWS = {  # what an example that trains nothing prints
    "beam_search": ["t: ['tha', 'theor'", "5 steps"],
    "checkpointing": ["keep all: 5", "sqrt: 3", "live in steps"],
    "distributions": [
        "the bound fell from",
        "the best lever is pulled 9",
        "humps near -2.0 and 3.0",
    ],
    "dtypes": ["uint8 with int8: staticflow.int16", "in bfloat16: 1000.0", "wrap: [4]"],
    "draw": ["after fuse", "new 0.weight", "slider over ['written'", "keep what they were given"],
    "early_exit": [
        "goal 1.5: 6 years to 1.501, slope 1.501",
        "define-by-run: 6 years, slope 1.501",
    ],
    "array_api": [
        "NumPy's values: True",
        "compiled, the same: True",
        "and the same gradients: True",
        "through scipy.special.logsumexp: True",
        "scipy.special.softmax, compiled: True",
        "refused: staticflow.array_api.complex64",
    ],
    "batches": [
        "batches of [32, 32, 32, 4]",
        "the loss fell to a tenth: True",
        "PyTorch's ",
        "refused: default_collate: samples have arrays of the shapes [2], [3]",
    ],
    "explain": [
        "log_of_softmax",
        "the cheapest order",
        "kernel contract0",
        "eagerly the loss is inf, compiled 1",
    ],
    "einops_patterns": [
        "the same loss: True",
        "the same gradient: True",
        "refused: Sequential: reshape",
    ],
    "from_pytorch": [
        "names: 0.weight, 0.bias, 1.weight",
        "eagerly, the same: True",
        "fell to a tenth: True",
        "PyTorch's module is trained: True",
        "behind torch.compile, the same: True",
        "refused: aten._fft_r2c.default, asked for at ",
    ],
    "register_machine": [
        "after 5 instructions",
        "sin(2.000 x + 0.500)",
        "another program: [1.0, 4.0, 9.0]",
        "through 3 of the instructions: [0.0, -",
    ],
    "hidden_markov": ["loaded ......*********.....", "the same states: True", "compiled 1 time"],
    "interop": [
        "follows the tensor: [2. 2. 2.]",
        "DLPack: [0.0, 0.0, 0.0]",
        "refused: x is float64",
    ],
    "jacobian_hessian": ["the lowest point: [1.0, 1.0]", "Hessian there: [802.0, -400.0]"],
    "jit": ["1000 rows: (1000, 4)", "27 takes 111 steps", "refused: the truth", "with cond: 1.0"],
    "look_into_gradients": ["('0', 'back')", "True, True", "SqrtBackward0", "NaN at [1] of -2.0"],
    "losses": [
        "negative log-likelihood of log_softmax: True",
        "of scores 0.2064, of probabilities 0.2064",
        "the same gradient: True",
        "refused: cross_entropy: the index 3, at [1]",
    ],
    "newton": [
        "root 1000 after 40 iterations",
        "compiled 1 time",
        "define-by-run: slope 0.0833333",
    ],
    "onnx_export": [
        "operators: Gemm, Relu, Gemm, Identity",
        "initializers: 0.weight, 0.bias, 3.weight, 3.bias",
        "the same of 5 rows: True",
        "the same of a loop: True",
        "a step gives output, 0.weight.new",
        "refused: onnx.export: cholesky",
    ],
    "onnx_load": [
        "parameters: 0.weight, 0.bias, 2.weight, 2.bias",
        "the same numbers: True",
        "compiled, of 1 rows: True",
        "compiled, of 7 rows: True",
        "onnxruntime: True",
        "refused: onnx.load",
    ],
    "operations": [
        "points of each centre: [25, 25, 25, 25]",
        "compiled, the same: True",
        "and the same gradient: True",
        "its diagonal [0, 11, 22]",
    ],
    "mixed_precision": [
        "scores staticflow.float16, loss staticflow.float32, gradient staticflow.float32",
        "eager: loss 0.038, scale 16384",
        "compiled: loss 0.038, scale 16384",
        "a step that overflows is left out; the scale goes from 16384 to 8192",
    ],
    "optimizers": ["SGD: loss 1.545", "Adadelta: loss 1.545"],
    "profiles": [
        "conv2d",
        "Adam.step",
        "13 kernels",
        "profiling makes it",
        "trained nothing: True",
        "every kernel has a row: True",
        "the parts are the whole: True",
        "both modes in one trace",
    ],
    "peers": ["the same loss: True"],
    "pytorch_idioms": [
        "gradient [[2.0, 2.0, 2.0], [2.0, 2.0, 0.0]]",
        "2 clipped",
        "changed 3 times through views: [0.0, 3.0, 3.0]",
        "drawn again: True",
        "is better: True",
    ],
    "random_numbers": ["elements dropped: True", "numbers kept: True", "of what is impossible"],
    "tape": ["twice: [4.0, 8.0]", "3 tensors as float16", "gradient [5.4366, 22.1672]"],
    "vmap": ["norms of gradients: [", "steps: [", "ends: [0.6"],
    "views": ["gives the same: True", "base [-1.0, 5.0, 5.0, -1.0]", "refused: mul: argument 0"],
}
NEEDS = {"from_pytorch": "torch"}  # what is in no extra that all tests have
IN_BOTH_MODES = {"weight_sharing", "truncated_bptt"}  # twins, trained beside each other
SLOW = {"lstm_classifier": (400, 0.7), "weight_sharing": (200, 0.15)}  # they learn more slowly
EXAMPLES = sorted(FOLDER.glob("*.py"))
TRAINING = [path for path in EXAMPLES if path.stem not in SHOWS]


@pytest.mark.parametrize("path", TRAINING, ids=lambda path: path.stem)
def test_the_loss_falls(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps, part = SLOW.get(path.stem, (120, 0.1))
    losses = runpy.run_path(str(path))["main"](steps)
    assert len(losses) == steps
    assert mean(losses[-10:]) < part * mean(losses[:10])
    printed = capsys.readouterr().out
    assert "step 100" in printed
    if path.stem in IN_BOTH_MODES:
        (difference,) = re.findall(r"100 steps of both modes differ by (\S+)", printed)
        assert float(difference) < 1e-4


@pytest.mark.parametrize("name", SHOWS)
def test_it_shows_what_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{name}.py is of {NEEDS[name]}")
    runpy.run_path(str(FOLDER / f"{name}.py"))["main"]()
    printed = capsys.readouterr().out
    for text in SHOWS[name]:
        assert text in printed


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith('"""') and text.count("\n") < 90
    assert path.name in (FOLDER / "README.md").read_text()
    assert path.stem not in sys.stdlib_module_names, "beside it, others would import it"
