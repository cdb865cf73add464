"""Netron opens the files of models and draws every operator."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chromium import Browser, needs_chromium, open_browser
from onnx_judge import checked, model_bytes

from staticflow.comparison.job import Request
from staticflow.comparison.requests import job_of

netron = pytest.importorskip("netron", reason="no file was opened in Netron: it is not installed")
pytest.importorskip("onnx.checker", reason="models of ONNX are written and checked by onnx")

EXAMPLES = Path(__file__).parents[2] / "examples"
LABELS = "[...document.querySelectorAll('.node-item-type text')].map(x => x.textContent)"


@contextmanager
def served(name: str, data: bytes) -> Iterator[str]:
    """The address at which Netron shows a model, without asking the network for anything."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    netron.serve(name, data, address)
    try:
        yield f"http://{address[0]}:{address[1]}/"
    finally:
        netron.stop(address)


def labels(browser: Browser, url: str) -> list[str]:
    """What stands on the nodes that Netron draws. It may ask nobody but its own server."""
    browser.ask("Network.setBlockedURLs", urls=["https://*"])
    browser.ask("Network.setCookie", name="consent", value="1", url=url)
    browser.visit(url)
    end = time.monotonic() + 30
    while not (drawn := browser.run(LABELS)):
        text = browser.run("document.body.innerText")
        if "Please update" in text:
            pytest.skip("no file was opened in Netron: half a year after its release it refuses to")
        assert time.monotonic() < end, text
        time.sleep(0.05)
    return drawn


@needs_chromium
@pytest.mark.parametrize("name", ["lenet.py:LeNet", "lstm_classifier.py:Classifier"])
def test_models_of_the_examples_are_drawn(name: str) -> None:
    job = job_of(Request(f"{EXAMPLES}/{name}", steps=2))
    data = model_bytes(job.make().eval(), job.placeholders()[: job.model_takes])
    wanted = sorted(n.op_type for n in checked(data).graph.node)
    with open_browser() as browser, served("model.onnx", data) as url:
        drawn = labels(browser, url)
    assert not set(wanted) - set(drawn)
