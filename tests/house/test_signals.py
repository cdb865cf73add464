"""Tests of Ctrl-C hear it, however the run was begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest


def test_ctrl_c_is_heard() -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        signal.sigtimedwait([], 1)  # a signal comes between two lines, or here


def test_ctrl_c_is_heard_where_a_shell_runs_the_tests_in_the_background() -> None:
    own = f"{__file__}::{test_ctrl_c_is_heard.__name__}"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", own],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout
