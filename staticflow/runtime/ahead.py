"""Kernels of a program that are compiled while others are still lowered, and the rest is planned
and written: LLVM takes longer for a text than it takes to write it."""

from __future__ import annotations

from dataclasses import field

from staticflow.codegen.kernel import Kernel
from staticflow.codegen.llvm.modules import SMALL, show_functions, split_text, without_functions
from staticflow.codegen.llvm.render import LOOK, join_kernels, render_kernel
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.runtime.compiler import Compilation

__all__ = ["Ahead"]


@dataclass(slots=True)
class Ahead:
    """Takes kernels as they are made, for a ``target``: keeps their ``texts`` by name, and has a
    ``compilation`` of those that are ``apart``, which need nothing of the program around them."""

    target: Target
    texts: dict[str, str] = field(default_factory=dict)
    compilation: Compilation = field(default_factory=Compilation)
    apart: str = ""
    _waiting: list[str] = field(default_factory=list)

    def take(self, kernel: Kernel) -> None:
        """A kernel that the program has."""
        text = self.texts[kernel.name] = render_kernel(kernel, self.target)
        if any(b.access == "grows" for b in kernel.buffers):
            return  # which functions of the program let grow
        self._waiting.append(show_functions(text, {kernel.name}))
        if sum(map(len, self._waiting)) >= SMALL:
            module = join_kernels(self._waiting)
            self._waiting.clear()
            self.apart += module
            for part in split_text(f"{LOOK}{module}"):
                self.compilation.add(part)

    def rest_of(self, text: str) -> str:
        """The text of the program without what is compiled apart."""
        return without_functions(text, self.apart) if self.apart else text
