"""The page for those who come from another library: every line of ours runs, and theirs do where
that library is installed."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from staticflow import pytree

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
_, OURS, _ = re.split(r"```python\n|```\n", PAGE, maxsplit=2)
COMPARED = ("PyTorch", "JAX")  # what they compute is there at once, to be held beside ours
OF_OURS = {"PyTorch": "t = sf.ones(4, 3)", "JAX": "t = sf.ones(4, 3)"}  # beside what the page says
THEIRS = {
    "PyTorch": ("torch", """
        import torch
        t, w = torch.ones(4, 3), torch.ones(3, 2, requires_grad=True)
        opt = torch.optim.SGD([w], lr=0.1)
        f = lambda t: (t * t).sum()
     """),
    "JAX": ("jax", """
        import jax
        from jax import lax, numpy as jnp
        t, w = jnp.ones((4, 3)), jnp.ones((3, 2))
        f = lambda t: (t * t).sum()
     """),
    "TensorFlow 1": ("tensorflow", """
        import numpy as np
        import tensorflow.compat.v1 as tf
        tf.disable_eager_execution()
        folder = path
        a = np.ones((4, 3), np.float32)
        x = tf.placeholder(tf.float32, [None, 3])
        w = tf.Variable(tf.ones([3, 2]))
        loss = tf.reduce_sum(tf.tanh(x @ w))
        sess = tf.Session()
        sess.run(tf.variables_initializer([w]))
     """),
    "PyTensor and Theano": ("pytensor", """
        import numpy as np
        import pytensor
        import pytensor.tensor as pt
        from pytensor.ifelse import ifelse
        a = np.ones((4, 3))
     """),
}  # fmt: skip


def rows_of(title: str) -> list[list[str]]:
    """The table of a section: rows of their program, ours, and what differs."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if row.startswith("| `")]
    assert len(rows) > 8 and {len(row) for row in rows} == {3}
    return [["\n".join(re.findall("`(.*?)`", cell)) for cell in row[:2]] + row[2:] for row in rows]


def run_column(title: str, column: int, names: dict[str, Any]) -> dict[str, Any]:
    """Runs one side of the table; the values of the rows in which nothing differs."""
    values = {}
    for row in rows_of(title):
        if row[2] == "nothing" and title in COMPARED:
            values[row[1]] = eval(row[column], names)
        else:
            exec(row[column], names)
    return values


def run_ours(title: str, path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"path": str(path), "page": f"{path}.html"}
    exec(OURS + OF_OURS.get(title, ""), names)
    return run_column(title, 1, names)


@pytest.mark.parametrize("title", THEIRS)
def test_what_stands_on_our_side_runs(title: str, tmp_path: Path) -> None:
    run_ours(title, tmp_path / "file")


@pytest.mark.parametrize("title", THEIRS)
def test_what_stands_on_their_side_runs(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, setup = THEIRS[title]
    try:
        module = importlib.import_module(library)
    except ImportError:
        pytest.skip(f"{library} is not installed")
    if library == "torch":
        monkeypatch.setattr(
            module, "compile", lambda f, dynamic=None: f
        )  # it wants a compiler of C++
    names: dict[str, Any] = {"path": str(tmp_path / "theirs")}
    exec(re.sub("^ +", "", setup, flags=re.MULTILINE), names)
    theirs = run_column(title, 0, names)
    ours = run_ours(title, tmp_path / "ours")
    for row, value in theirs.items():
        for a, b in zip(pytree.flatten(value)[0], pytree.flatten(ours[row])[0], strict=True):
            np.testing.assert_allclose(np.asarray(a), b.numpy(), 1e-6, err_msg=row)
