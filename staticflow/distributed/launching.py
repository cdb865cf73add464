"""How several processes are started: by mpirun, which is to be there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from staticflow.errors import RankError

__all__ = ["launch_command"]


def launch_command(count: int, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words that start Python with these ``arguments`` ``count`` times, and the environment,
    which allows more processes than processors. Other options of mpirun are set by its own
    environment variables. Raises `RankError` where there is no mpirun."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("mpirun", path=os.pathsep.join((beside, os.environ.get("PATH", ""))))
    if found is None:
        raise RankError("there is no mpirun; install staticflow[distributed], or an MPI")
    environment = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", **os.environ}
    return [found, "-n", str(count), sys.executable, *arguments], environment
