"""A headless Chromium of the system, driven through a pipe by its DevTools protocol.

https://chromedevtools.github.io/devtools-protocol: each message is JSON and ends with a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
SECONDS = 60
"""How long an answer may take, on a machine that is busy."""


def find_chromium() -> str | None:
    """The path of the browser, or None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


needs_chromium = pytest.mark.skipif(
    find_chromium() is None,
    reason="no page was looked at: there is no Chromium here (Debian's package is `chromium`)",
)


class Browser:
    """One tab. ``errors`` are what the console and the page complained of since the last visit, and
    ``requests`` what it asked the network for."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self.buffer = b""
        self.count = 0
        self.session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command; what happens meanwhile is noted."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.count:
            self.note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def receive(self) -> dict[str, Any]:
        """The next message."""
        end = time.monotonic() + SECONDS
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.reading], [], [], max(end - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            read = os.read(self.reading, 1 << 20)
            assert read, "the browser has ended"
            self.buffer += read
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def note(self, message: dict[str, Any]) -> None:
        """Keep an event that a test asks for."""
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded":
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def visit(self, url: str, width: int = 1280, height: int = 800, **media: str) -> None:
        """Load a page in a window of that size. ``media`` are features of the style sheet, as
        ``color_scheme="dark"``."""
        self.errors, self.requests = [], []
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
        features = [
            {"name": f"prefers-{k.replace('_', '-')}", "value": v} for k, v in media.items()
        ]
        self.ask("Emulation.setEmulatedMedia", features=features)
        self.ask("Page.navigate", url=url)
        end = time.monotonic() + SECONDS
        while self.run("[document.readyState, location.href]") != ["complete", url]:
            assert time.monotonic() < end, f"{url} does not load"
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, such as ``Tab`` or ``Enter``, and let it go."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r"), "ArrowRight": (39, "")}[key]
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text,
                     windowsVirtualKeyCode=code)  # fmt: skip

    def shoot(self, path: str, whole: bool = True) -> None:
        """Save a picture of the window, or of the whole page."""
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        if whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            data = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def print_pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser with a folder of its own, which is gone afterwards."""
    chromium = find_chromium()
    assert chromium is not None
    its_input, to_it = os.pipe()
    from_it, its_output = os.pipe()

    def place_pipes() -> None:  # the protocol is spoken on descriptors 3 and 4
        os.dup2(os.dup2(its_input, 50), 3)
        os.dup2(os.dup2(its_output, 51), 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # In a session of its own: an interrupt of the tests is not the browser's.
        process = subprocess.Popen(
            [chromium, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=place_pipes, pass_fds=(3, 4), start_new_session=True,
        )  # fmt: skip
        os.close(its_input)
        os.close(its_output)
        try:
            yield Browser(from_it, to_it)
        finally:
            os.close(to_it)
            process.terminate()
            process.wait(SECONDS)
            os.close(from_it)
