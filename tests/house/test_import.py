"""What `import staticflow` brings along, which every script waits for."""

from __future__ import annotations

import subprocess
import sys

RARELY_USED = {"networkx", "matplotlib", "tqdm", "sklearn", "torch", "jax", "unittest"}


def test_what_is_rarely_used_is_imported_where_it_is() -> None:
    program = "import sys, staticflow; print(*{name.split('.')[0] for name in sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert "numpy" in loaded
    assert not loaded & RARELY_USED
