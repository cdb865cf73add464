"""The launches of the kernels that guard others, as a run asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.codegen.cuda.render import launch_geometry
from staticflow.codegen.program.routine import Step
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import bool_, int32
from staticflow.runtime.device.interface import Argument, Pointer
from staticflow.runtime.device.masked import Mask, bytes_of_products, depth_of_branches

if TYPE_CHECKING:
    from staticflow.runtime.device.executable import DeviceExecutable, Loaded

__all__ = ["Guards"]

_WORDS = np.dtype(np.int32)


class Guards:
    """The guards of a run of ``program`` whose failures are in words, the ``first_word`` nobody's.
    ``mask`` is that of the loop or branch that is captured, if there is one."""

    def __init__(self, program: DeviceExecutable, first_word: int) -> None:
        self._program, self._device, self._first_word = program, program.device, first_word
        self.mask: Mask | None = None
        self._depth = 0  # of branches around
        self._sides: Any = None  # words of branches
        self._scratch: Any = None  # and what a library multiplies in them

    @property
    def word(self) -> int:
        """The address of the word that guarded kernels look at now."""
        return self._first_word if self.mask is None else self.mask.word

    @property
    def held_bytes(self) -> int:
        """The bytes of the memory that `reserve` has made."""
        return sum(int(a.nbytes) for a in (self._sides, self._scratch) if a is not None)

    def reserve(self, steps: tuple[Step, ...], size: Callable[[Size], int]) -> None:
        """Make the memory that the branches among some steps need, where ``size`` gives the number
        that a size is."""
        depth = depth_of_branches(steps)
        if depth:
            self._sides = self._device.empty([2 * depth], _WORDS)
            bytes_ = bytes_of_products(steps, size)
            self._scratch = self._device.empty([bytes_], np.dtype(np.uint8))

    @contextmanager
    def behind(self, mask: Mask, *, inside: bool = False) -> Iterator[None]:
        """A block in which guarded kernels look at the word of a mask, ``inside`` of a branch."""
        before, depth = self.mask, self._depth
        try:
            self.mask, self._depth = mask, depth + inside
            yield
        finally:
            self.mask, self._depth = before, depth

    def load(self) -> None:
        """Launch the kernels once that only graphs may launch, as CUDA loads a kernel at its first
        launch, and not in a capture. None of them does anything."""
        program = self._program
        if not program.copies and not program.masked:
            return
        stops = self._device.empty([4], _WORDS)
        self._device.upload(stops, np.ones(4, np.int32))
        at = self._device.address(stops)
        behind = at + 2 * _WORDS.itemsize  # what is written lies apart from what is read
        with self.behind(Mask(at, at)):
            for name in sorted(program.masked):
                code = program.kernels[name]
                places = [Pointer(at, b.dtype, b.access != "in") for b in code.kernel.buffers]
                for entry in code.entries:
                    sizes = [np.int64(1) for _ in code.kernel.sizes]
                    self._device.launch(
                        entry, (1, 1, 1), (1, 1, 1), [*places, *sizes, self._status]
                    )
            for code in program.copies:
                dtype = code.kernel.buffers[0].dtype
                self._launch(code, [Pointer(at, dtype, False), Pointer(at, dtype, True)], 0)
        if program.go_on is not None:
            self.begin_iteration(at, behind)
        if program.branch is not None:
            self._write_sides(at, at, behind)

    def vote(self, count: int) -> None:
        """Write to the first word if one of the ``count`` behind it was written."""
        words = Pointer(self._first_word + _WORDS.itemsize, int32, False)
        self._launch(self._program.vote, [words], count)

    def copy(self, target: int, source: int, bytes_: int) -> None:
        """Copy bytes from address to address, unless a guarded kernel would do nothing."""
        for code in self._program.copies:
            dtype = code.kernel.buffers[0].dtype
            if (target | source | bytes_) % dtype.itemsize == 0:
                places = [Pointer(source, dtype, False), Pointer(target, dtype, True)]
                self._launch(code, places, bytes_ // dtype.itemsize)
                return

    def begin_iteration(self, flag: int, words: int) -> None:
        """Count an iteration of a loop in the second of two ``words``, or end it in the first."""
        places = [Pointer(flag, bool_, False), Pointer(words, int32, True)]
        self._launch(self._program.go_on, places, 0)

    def take_branch(self, flag: int) -> tuple[Mask, Mask]:
        """The masks of both sides of a branch, of which the flag takes one."""
        sides = self._device.address(self._sides) + 2 * _WORDS.itemsize * self._depth
        self._write_sides(flag, self.word, sides)
        own = self._device.address(self._scratch)
        scratch = own if self.mask is None else self.mask.scratch
        return Mask(sides, scratch), Mask(sides + _WORDS.itemsize, scratch)

    def _write_sides(self, flag: int, around: int, sides: int) -> None:
        words = Pointer(around, int32, False), Pointer(sides, int32, True)
        self._launch(self._program.branch, [Pointer(flag, bool_, False), *words], 0)

    @property
    def _status(self) -> Pointer:
        return Pointer(self.word, int32, True)

    def _launch(self, code: Loaded | None, places: Sequence[Argument], count: int) -> None:
        assert code is not None
        (entry,), (size,) = code.entries, code.kernel.sizes
        geometry = launch_geometry(code.kernel, {size: count})
        self._device.launch(entry, *geometry, [*places, np.int64(count), self._status])
