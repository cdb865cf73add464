"""What the things of a launch are called in CUDA C, and what is made of names alone: indices."""

from __future__ import annotations

import re
from collections.abc import Hashable

from staticflow.codegen.cuda.values import HELPERS, literal
from staticflow.codegen.kernel import Const, Operand, Reg
from staticflow.graph.dims import Call, Size, Sym, is_provably_ge

__all__ = ["Names", "in_brackets"]


class Names:
    """The identifiers of a launch. ``partial`` are those of registers that the threads of a team
    accumulate into, ``renamed`` pointers by those that are known to be aligned."""

    def __init__(self) -> None:
        self.partial: dict[str, str] = {}
        self.renamed: dict[str, str] = {}
        self._names: dict[Hashable, str] = {}
        self._taken = set(HELPERS)

    def name_of(self, thing: Hashable, like: str) -> str:
        """The identifier of a thing. No word of C++ or CUDA and no function that is called ends in
        an underscore, and none that matters in a digit."""
        if thing not in self._names:
            name = re.sub(r"\W", "_", like, flags=re.ASCII)
            name = name if name[:1].isalpha() else f"x{name}"
            name = name if name[-1].isdigit() else f"{name}_"
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._names[thing] = name
        return self._names[thing]

    def buffer(self, name: str) -> str:
        """The identifier of a buffer."""
        own = self.name_of(("buffer", name), name)
        return self.renamed.get(own, own)

    def symbol(self, sym: Sym) -> str:
        """The identifier of a size, loop variable or bound register."""
        return self.name_of(sym, sym.name)

    def register(self, reg: Reg) -> str:
        """The identifier of a register."""
        if reg.name in self.partial:
            return self.partial[reg.name]
        return self.name_of(("register", reg.name), reg.name)

    def operand(self, operand: Operand) -> str:
        """A register or constant."""
        return literal(operand) if isinstance(operand, Const) else self.register(operand)

    def index(self, size: Size) -> str:
        """An index expression, as a C expression of type ``long long`` or a literal."""
        if isinstance(size, int):
            return str(size)
        text = ""
        for monomial, c in size.terms:
            factors = [self._atom(atom) for atom in monomial]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            sign = (" - " if c < 0 else " + ") if text else ("-" if c < 0 else "")
            text += sign + " * ".join(factors)
        return text

    def _atom(self, atom: Sym | Call) -> str:
        if isinstance(atom, Sym):
            return self.symbol(atom)
        a, b = self.index(atom.a), self.index(atom.b)
        if atom.fn == "floordiv" and is_provably_ge(atom.a, 0):
            return f"({in_brackets(a)} / {in_brackets(b)})"
        return f"{_INDEX_HELPERS[atom.fn]}({a}, {b})"


def in_brackets(text: str) -> str:
    """An expression as a factor of another one."""
    return text if re.fullmatch(r"\w+", text, flags=re.ASCII) else f"({text})"


_INDEX_HELPERS = {
    "floordiv": "sf_floordiv",
    "max": "sf_max_index",
    "min": "sf_min_index",
    "root": "sf_root_index",
}
