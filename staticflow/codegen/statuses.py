"""What native code returns where it did not run to its end. A kernel that refuses a value returns
one of `staticflow.codegen.lower.refusals`, none of which is a code of these."""

from __future__ import annotations

__all__ = ["INTERRUPTED", "NO_MEMORY", "NO_ROOM", "SIZES_DIFFER"]

NO_MEMORY = -1
"""What a program returns if the arena could not be had."""

NO_ROOM = 253
"""What a kernel returns if there was no memory to reserve."""

INTERRUPTED = 254
"""What a kernel returns if the user wanted to stop."""

SIZES_DIFFER = 255
"""The code of a failure that is no kernel's: two sizes are not equal."""
