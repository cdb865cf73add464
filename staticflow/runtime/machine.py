"""This machine, as LLVM describes it: asked once, and kept on disk beside the code from then on.

What is kept is found by what the system says of the processor and by the file that LLVM is in, so
LLVM is asked anew where either is another. A process that finds it does not import LLVM.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path

from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.runtime.code_cache import code_cache, own_source

__all__ = ["Host", "describe_host", "host_target", "machine_parts", "vector_bits"]

_FOLDER = Path(__file__).parent

_TRAITS = frozenset((
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",  # of x86
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",  # of Arm
))  # fmt: skip
"""What of ``/proc/cpuinfo`` is of the processor, and not of the moment."""


@dataclass(frozen=True, slots=True)
class Host:
    """LLVM's ``version``, the ``triple`` of this machine, the name of its ``cpu`` and the
    ``features`` that are there (``+avx2``) or not (``-avx2``), with commas between, all as LLVM
    writes them."""

    version: str
    triple: str
    cpu: str
    features: str

    def has(self, feature: str) -> bool:
        """Whether the processor has a feature."""
        return f"+{feature}" in self.features.split(",")


@functools.lru_cache(maxsize=1)
def describe_host() -> Host:
    """This machine: from the `code_cache`, or of LLVM."""

    def ask() -> bytes:
        from staticflow.runtime.compiler import ask_host

        return json.dumps(ask_host()).encode()

    cache, processor, library = code_cache(), _processor(), _library()
    if cache is None or not processor or not library:
        return Host(*json.loads(ask()))
    asking = own_source(str(_FOLDER / "compiler.py"))
    return Host(*json.loads(cache.fetch(ask, "host", processor, library, asking)))


def _processor() -> str:
    """What the system says of the first processor; nothing where it says too little."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""
    lines = [line.partition(":") for line in text.partition("\n\n")[0].splitlines()]
    traits = {name.strip(): value.strip() for name, _, value in lines}
    if not traits.keys() & {"flags", "Features"}:
        return ""
    return repr([(name, traits[name]) for name in sorted(_TRAITS & traits.keys())])


def _library() -> str:
    """The file that LLVM is in, its size and when it was written; nothing if it is not found."""
    spec = importlib.util.find_spec("llvmlite")
    folders = (spec.submodule_search_locations if spec else None) or ()
    for folder in folders:
        for file in sorted(Path(folder, "binding").glob("*llvmlite.*")):
            status = file.stat()
            return f"{file} {status.st_size} {status.st_mtime_ns}"
    return ""


@functools.lru_cache(maxsize=1)
def machine_parts() -> tuple[str, ...]:
    """What decides the code of a text: LLVM, the processor, and what staticflow asks of LLVM."""
    host = describe_host()
    asked = own_source(str(_FOLDER / "compiler.py"))
    return "object", host.version, host.triple, host.cpu, host.features, asked


@functools.lru_cache(maxsize=1)
def host_target() -> Target:
    """The machine that runs this process."""
    host = describe_host()
    wide, has_avx2 = host.has("avx512f"), host.has("avx2")
    return Target(
        vector_bits=512 if wide else 256 if has_avx2 else 128,
        fma=host.has("fma") or host.has("neon"),
        masks=wide or has_avx2,
        avx512=wide and host.has("avx512vl"),
        streamed_bytes=_largest_cache() * 3 // 2,
    )


def _largest_cache(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """The bytes of the largest cache that the first processor has, alone or with others; 32 MiB
    where the system does not say."""
    try:
        sizes = [file.read_text().strip() for file in folder.glob("index*/size")]
    except OSError:
        sizes = []
    kibibytes = [int(s[:-1]) for s in sizes if s[:-1].isdigit() and s[-1] == "K"]
    return max(kibibytes, default=1 << 15) << 10


def vector_bits() -> int:
    """Bits of the widest vector register of this machine: 512, 256 or 128."""
    return host_target().vector_bits
