"""What a symbol has of the attributes of an eager tensor: an answer, or an error that says why."""

from __future__ import annotations

from typing import Any, NoReturn

from staticflow.errors import AutogradError, SymbolAttributeError, SymbolicError
from staticflow.graph.device import device
from staticflow.graph.dims import Size
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import param
from staticflow.ops.basics.arithmetic import clone, stop_gradient
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import for_itself

__all__ = ["SymbolAttributes"]

_OF_MEMORY = "it has no memory of its own"
_OF_TAPE = "it is on no tape: ask for gradients with sf.grad(loss, [w, ...])"
_OF_HOOKS = "a program calls no Python: change the value or the gradient in the expression itself"

REFUSED = {
    "apply_": "a program calls no Python: write the function in ops",
    "map_": "a program calls no Python: write the function in ops",
    "cuda": "a program runs where it is compiled for",
    "data_ptr": _OF_MEMORY,
    "pin_memory": _OF_MEMORY,
    "is_pinned": _OF_MEMORY,
    "resize_": f"{_OF_MEMORY}: take another shape with reshape, or a part with a slice",
    "resize_as_": f"{_OF_MEMORY}: take another shape with reshape, or a part with a slice",
    "set_": f"{_OF_MEMORY}: put values with copy_",
    "_data": "it has no elements yet; call the method of the symbol, as x.detach(), not Tensor's",
    "grad": _OF_TAPE,
    "grad_fn": _OF_TAPE,
    "is_leaf": _OF_TAPE,
    "output_nr": _OF_TAPE,
    "_version": _OF_MEMORY,
    "retain_grad": _OF_TAPE,
    "retains_grad": _OF_TAPE,
    "register_post_accumulate_grad_hook": _OF_HOOKS,
    "__dlpack__": "its values are known only when the program runs",
    "__dlpack_device__": "its values are known only when the program runs",
}
"""Attributes of eager tensors that a symbol does not have, and why."""


class SymbolAttributes:
    """Attributes that mean the same for a tensor and a symbol. A program runs on the CPU."""

    __slots__ = ()

    device = device("cpu")
    __sf_gpu__ = None
    is_cpu = True
    is_cuda = is_sparse = is_quantized = is_meta = is_nested = False

    def __getattr__(self, name: str) -> NoReturn:
        if name not in REFUSED:
            raise AttributeError(f"'Symbol' object has no attribute {name!r}")
        raise SymbolAttributeError(
            f"{name} of a symbolic value: {REFUSED[name]}, at {format_locs(here())}"
        )

    def cpu(self) -> Any:
        """The symbol itself."""
        return self

    def get_device(self) -> int:
        """-1, as for every tensor on the CPU."""
        return -1

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """The symbol itself, of which a gradient may now be asked, as of a leaf that eager
        operations are recorded on: ``x = x.detach().requires_grad_()``.

        Raises `AutogradError` for integers, and `SymbolicError` for an argument of what is traced,
        which is the caller's, and for one that has a gradient and is to have none.
        """
        mine: Any = self
        if as_bool("requires_grad", requires_grad):
            if not mine.dtype.is_floating:
                raise AutogradError(
                    f"only floating tensors have gradients, not {mine.dtype.name}; make it of a "
                    f"floating dtype, as in dtype=sf.float32, at {format_locs(here())}"
                )
            mine._own("requires_grad_()", "write x = x.detach().requires_grad_()")
            if mine.node.op is param:
                raise SymbolicError(
                    "requires_grad_() of an argument of a graph, which is the caller's: call it "
                    "before, or write x = x.detach().requires_grad_(); sf.grad(loss, [x]) needs "
                    f"neither, at {format_locs(here())}"
                )
            if mine.node.op is stop_gradient:
                with for_itself():
                    mine._begin_history(clone(mine).node)
        elif mine.node.op is not stop_gradient and mine.dtype.is_floating:
            raise SymbolicError(
                "requires_grad_(False) of a symbolic value: of what was computed before a gradient "
                f"may have been asked; write x = x.detach(), at {format_locs(here())}"
            )
        return mine

    def is_inference(self) -> bool:
        """False: a program may be differentiated."""
        return False

    @property
    def name(self) -> str | None:
        """The name of a placeholder or of a tensor that is captured; None for what is computed."""
        mine: Any = self
        name: str | None = mine.node.attrs.get("name")
        return name

    @property
    def data(self) -> Any:
        """What `detach` gives: the value of this symbol, through which no gradient flows."""
        mine: Any = self
        return mine.detach()

    @data.setter
    def data(self, value: Any) -> None:
        raise SymbolicError(
            f"x.data = ... of a symbolic value: {_OF_MEMORY}; write x.copy_(value) under "
            f"sf.no_grad(), at {format_locs(here())}"
        )

    def stride(self, dim: int | None = None) -> Any:
        """How far apart in memory neighbours along each dim lie, in elements; or along one dim.

        Raises `SymbolicError`, as `storage_offset` and `is_contiguous` do, unless the value was
        made by a factory or by `contiguous`: an argument may lie in memory as it likes, and so may
        what is computed of it.
        """
        mine: Any = self
        self._need_row_major("stride")
        strides: list[Size] = [1] * mine.ndim
        for i in range(mine.ndim - 1, 0, -1):
            strides[i - 1] = strides[i] * mine.shape[i]
        return tuple(strides) if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Where in its memory the value begins, in elements."""
        self._need_row_major("storage_offset")
        return 0

    def is_contiguous(self) -> bool:
        """Whether the elements lie in memory one behind the other, in row-major order."""
        self._need_row_major("is_contiguous")
        return True

    def _need_row_major(self, what: str) -> None:
        """Raise `SymbolicError` unless the elements lie in row-major order for sure."""
        mine: Any = self
        if not mine._is_row_major:
            raise SymbolicError(
                f"{what} of a symbolic value ({mine.node.type}): how it lies in memory is known "
                "only when the program runs; ask it of x.contiguous(), which copies only what "
                f"does not lie in rows, at {format_locs(here())}"
            )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise SymbolicError(
            "a symbolic value cannot be pickled; save tensors, or the text of the program's graph, "
            f"at {format_locs(here())}"
        )

    def element_size(self) -> int:
        """The bytes of one element."""
        mine: Any = self
        size: int = mine.dtype.itemsize
        return size

    itemsize = property(element_size)

    @property
    def nbytes(self) -> Size:
        """The bytes of all elements."""
        mine: Any = self
        size: Size = mine.numel() * self.element_size()
        return size

    def __reversed__(self) -> Any:
        mine: Any = self
        return mine.flip(tuple(range(mine.ndim)))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        mine: Any = self
        return mine.clone()

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        raise SymbolicError(
            f"a symbolic value has no digits to format by {spec!r} before the program runs; print "
            f'it as it runs, with sf.print("{{:{spec}}}", x), at {format_locs(here())}'
        )
