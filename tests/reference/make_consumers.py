"""Writes what libraries make of tensors: ``python tests/reference/make_consumers.py``.

It runs the calls of ``tests/array_api/consumer_calls.py`` and writes those that do not do what they do on
NumPy's arrays to ``consumers.json``, each with the reason, and as a table into
``docs/array-api.md``. ``test_consumers.py`` holds both to the truth.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "array-api.md"
STORED = Path(__file__).parent / "consumers.json"
BEGIN, END = "<!-- of make_consumers.py -->\n", "<!-- end of consumers -->\n"
LIBRARIES = {"scipy": "SciPy", "sklearn": "scikit-learn"}


def run(library: str) -> dict[str, str]:
    """What becomes of each call, in a process of its own."""
    command = [sys.executable, str(TESTS / "array_api" / "consumers.py"), library]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def stored() -> dict[str, dict[str, str]]:
    """What stands in the file: by library all calls, as `run` gives them."""
    found: dict[str, dict[str, str]] = json.loads(STORED.read_text())
    return found


def table(found: dict[str, dict[str, str]]) -> str:
    """The table of the page."""
    rows = ["| of | calls | equal to NumPy's | the others |", "|---|---|---|---|"]
    for library, calls in found.items():
        rooms: dict[str, dict[str, str]] = defaultdict(dict)
        for call, why in calls.items():
            rooms[call.lstrip("(").partition(".")[0]][call] = why
        for room, inside in sorted(rooms.items()):
            reasons: dict[str, list[str]] = defaultdict(list)
            for call, why in inside.items():
                if why:
                    reasons[why].append(f"`{call.partition('(')[0].removeprefix(room + '.')}`")
            others = "; ".join(f"{why}: {', '.join(names)}" for why, names in reasons.items())
            equal = sum(not why for why in inside.values())
            rows.append(f"| {LIBRARIES[library]}, `{room}` | {len(inside)} | {equal} | {others} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Run all, and write both."""
    found = {library: run(library) for library in LIBRARIES}
    STORED.write_text(json.dumps(found, indent=0) + "\n")
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table(found) + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
