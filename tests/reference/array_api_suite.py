"""Runs the tests of the array API that its authors keep, which nothing here needs:
``python tests/reference/array_api_suite.py FOLDER``, of a checkout of ``data-apis/array-api-tests`` with its submodule.

The suite wants ``ndindex`` and, in two lines, that some dtype is complex: it runs as a copy
without these. What fails is held to `KNOWN`; anything else is printed, and the script fails.
More arguments are pytest's, such as ``--max-examples=1000``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

KNOWN = {
    "of complex numbers": (
        r"imag\(x|test_has_names\[(fft-|elementwise-imag|linalg-eig)|test_eig|vecdot_conj"
        r"|\[imag|\[linalg\.eig"
    ),
    "operators on an array of no dims and one of another dtype give PyTorch's dtype": (
        r"\[__\w+__\(x1, x2\)\]"
    ),
    "a mask of another size than the dim is refused, if it is 0, too": r"test_getitem_masking",
    "infinity // a number and a number // infinity as in Python, which the standard allows": (
        r"floor_?div.*infinity"
    ),
}
"""Why tests fail, and the names of those."""

LINES = {
    "dtype_helpers.py": (
        "[(dt, dtype_nbits[dt]) for dt in complex_dtypes], key",
        "[(dt, dtype_nbits[dt]) for dt in complex_dtypes] or [(None, 0)], key",
    ),
    "test_signatures.py": ("dh.dtype_to_name[dh.widest_complex_dtype]", '"complex128"'),
}
"""By file a line that wants a complex dtype, and what takes its place."""


def main(folder: str, *options: str) -> int:
    """Run the suite; 1 if anything fails that is not known."""
    package = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as copied:
        suite = Path(copied) / "suite"
        shutil.copytree(folder, suite)
        for name, (old, new) in LINES.items():
            file = suite / "array_api_tests" / name
            file.write_text(file.read_text().replace(old, new))
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]),
            "ARRAY_API_TESTS_MODULE": "staticflow.array_api",
            "ARRAY_API_TESTS_VERSION": "2025.12",
            "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128,uint16,uint32,uint64",
        }
        command = [sys.executable, "-m", "pytest", "-q", "--disable-deadline", "array_api_tests"]
        done = subprocess.run(
            [*command, *options], cwd=suite, env=env, capture_output=True, text=True
        )
    lines = done.stdout.splitlines()
    counts: Counter[str] = Counter()
    others = []
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            why = next((w for w, names in KNOWN.items() if re.search(names, line)), None)
            counts.update([why] if why else [])
            others += [] if why else [line]
    print(lines[-1] if lines else done.stderr)
    for why, count in counts.items():
        print(f"{count} fail: {why}")
    print("\n".join(others))
    return 1 if others or not lines or " passed" not in lines[-1] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
