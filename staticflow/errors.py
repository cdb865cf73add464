"""The errors that staticflow raises. Every message names the op, the shapes and dtypes, the user's
own line where there is one, and what to do. All are `RuntimeError`, as PyTorch's mostly are, and
the built-in class, too, that NumPy or Python would raise.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "AutogradError",
    "CheckpointError",
    "CompileError",
    "DTypeError",
    "DeviceError",
    "DimRangeError",
    "IndexRangeError",
    "LinAlgError",
    "ModelError",
    "NanError",
    "NestingError",
    "ParseError",
    "ProfileError",
    "RankError",
    "ShapeError",
    "StaticflowError",
    "SymbolicError",
    "ThreadsError",
    "UndefinedError",
    "VerifyError",
]


class StaticflowError(RuntimeError):
    """The base of every error that staticflow raises on purpose."""

    _named = ""  # how its message begins with the function that was called, if it was named


class ShapeError(StaticflowError, ValueError):
    """Shapes, dims or numbers of arguments that do not fit together."""


class ArgumentError(StaticflowError, ValueError):
    """A number or word outside of what an argument may be."""


class LinAlgError(ArgumentError):
    """A matrix that a decomposition or a solution does not exist for."""


class DTypeError(StaticflowError, TypeError):
    """A dtype, or a kind of value, that an operation does not take: a ``value`` that should be
    what ``wanted`` says, where that is known, so that a function around it may name its own
    argument."""

    def __init__(self, message: str, value: object = None, wanted: str = "") -> None:
        super().__init__(message)
        self.value, self.wanted = value, wanted


class UndefinedError(StaticflowError, NotImplementedError):
    """A quantity that a distribution does not have, or has no formula for."""


class DeviceError(StaticflowError):
    """A device that is not there, or tensors on different ones."""


class SymbolicError(StaticflowError, TypeError):
    """A symbolic value where a concrete one is needed, or the other way round."""


class SymbolAttributeError(SymbolicError, AttributeError):
    """An attribute of eager tensors that symbols do not have; ``hasattr`` says so."""


class ThreadsError(StaticflowError):
    """A number of threads that there cannot be."""


class ProfileError(StaticflowError):
    """A profile or a measurement of memory that cannot be made, or not now."""


class RankError(StaticflowError):
    """A process of a mesh that has ended, or does something else than the others do."""


class AutogradError(StaticflowError):
    """A derivative that cannot be taken, or was taken twice."""


class IndexRangeError(StaticflowError, IndexError):
    """An index outside the axis that it selects from, or something that is no index."""


class DimRangeError(ShapeError, IndexRangeError):
    """A dim that the tensor does not have, or that has no element where one is chosen: NumPy calls
    it a `ValueError`, PyTorch an `IndexError`, and it is both."""


class NanError(StaticflowError, FloatingPointError):
    """The first NaN of a run that was asked to look for it."""


class NestingError(StaticflowError, RecursionError):
    """Lists, tuples or dicts in each other, more than there may be."""


class CheckpointError(StaticflowError, ValueError):
    """A state file that cannot be written or read, or a state that a module does not fit."""


class MissingCheckpointError(CheckpointError, FileNotFoundError):
    """A state file, or the folder of one, that is not there."""


class FolderCheckpointError(CheckpointError, IsADirectoryError):
    """A folder where a state file should be."""


class ModelError(StaticflowError, ValueError):
    """A file of a model that cannot be read, or says what staticflow has no meaning for."""


class MissingModelError(ModelError, FileNotFoundError):
    """A file of a model that is not there."""


class FolderModelError(ModelError, IsADirectoryError):
    """A folder where a file of a model should be."""


class CompileError(StaticflowError):
    """A graph that cannot be compiled to native code."""


class VerifyError(StaticflowError, ValueError):
    """A graph or kernel that breaks the rules of its IR; a bug in what built it."""


class ParseError(StaticflowError, ValueError):
    """Text that is not in the grammar of the IR it is parsed as."""


OPERAND_ERRORS = (
    StaticflowError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    SystemError,
    TypeError,
    ValueError,
)
"""What ops, and NumPy under them, raise of operands (`SystemError` where NumPy has no memory): it
is met again when the op is done in another way, which words it. Whatever else is raised meanwhile
is of the user's signal handler or profiler, is raised once, and so has to go through."""
