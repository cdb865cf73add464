"""``sf.backends``: the switches of the libraries that PyTorch computes by, as scripts set them when
they begin.

One of them changes results: `set_float32_matmul_precision`, or ``cuda.matmul.allow_tf32``, has
programs for a GPU multiply matrices of float32 by tensor cores. What an operation gives is the same
at each run: a switch that asks for this asks for what holds, and leave to do otherwise is not
taken. The others are there so that such lines need no change, and give back what was set.

>>> import staticflow as sf
>>> sf.backends.cudnn.deterministic = True
>>> sf.backends.mps.is_available()
False
"""

from __future__ import annotations

from staticflow.config import config
from staticflow.eager.device import is_available
from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.switch import as_bool

__all__ = [
    "Library", "are_deterministic_algorithms_enabled", "cuda", "cudnn",
    "get_float32_matmul_precision", "mkl", "mkldnn", "mps", "openmp",
    "set_float32_matmul_precision", "use_deterministic_algorithms",
]  # fmt: skip


class Library:
    """A library by which nothing is computed here, with its switches: bools.

    Raises `ArgumentError` for a switch that it does not have, and for a value that is no bool.
    """

    def __init__(self, name: str, **switches: bool) -> None:
        self._name: str
        self._switches: dict[str, bool]
        vars(self).update(_name=name, _switches=switches)

    def is_available(self) -> bool:
        """False."""
        return False

    def is_built(self) -> bool:
        """False."""
        return False

    def version(self) -> None:
        """None."""

    def __getattr__(self, name: str) -> bool:
        try:
            return self._switches[name]
        except KeyError:
            raise AttributeError(self._unknown(name)) from None

    def __setattr__(self, name: str, value: bool) -> None:
        if name not in self._switches:
            raise ArgumentError(f"{self._unknown(name)}, at {format_locs(here())}")
        if not isinstance(value, bool):
            raise ArgumentError(
                f"{self._name}.{name}: must be True or False, not {value!r}, at "
                f"{format_locs(here())}"
            )
        self._switches[name] = value

    def _unknown(self, name: str) -> str:
        known = ", ".join(self._switches) or "none"
        return f"{self._name}: there is no switch {name!r}; those there are: {known}"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._switches]

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(f'{n}={v}' for n, v in self._switches.items())})"


class _Products(Library):
    """The switches of products on a GPU, of which ``allow_tf32`` is the setting ``config.tf32``."""

    def __getattr__(self, name: str) -> bool:
        return config.tf32 if name == "allow_tf32" else super().__getattr__(name)

    def __setattr__(self, name: str, value: bool) -> None:
        super().__setattr__(name, value)
        if name == "allow_tf32":
            config.tf32 = value


class _CUDA:
    """``sf.backends.cuda``: what PyTorch asks of a GPU's products and attention.

    The ways of attention are chosen by `staticflow.nn.attention.sdpa_kernel`; here they are asked
    for and told, and the one that suits is taken, all of them the same to the last few bits.
    """

    matmul = _Products(
        "backends.cuda.matmul",
        allow_tf32=False,
        allow_fp16_reduced_precision_reduction=False,
        allow_bf16_reduced_precision_reduction=False,
    )

    def __init__(self) -> None:
        self._ways = dict.fromkeys(("cudnn", "flash", "math", "mem_efficient"), True)

    def is_built(self) -> bool:
        """Whether there is a GPU, with what programs for it need."""
        return is_available()

    def enable_cudnn_sdp(self, enabled: bool) -> None:
        """Give leave for attention by cuDNN, which nothing makes use of."""
        self._allow("cudnn", enabled)

    def enable_flash_sdp(self, enabled: bool) -> None:
        """Give leave for attention in blocks, which is taken anyhow where it pays."""
        self._allow("flash", enabled)

    def enable_math_sdp(self, enabled: bool) -> None:
        """Give leave for attention by its weights, which is taken anyhow where it pays."""
        self._allow("math", enabled)

    def enable_mem_efficient_sdp(self, enabled: bool) -> None:
        """Give leave for attention in blocks, which is taken anyhow where it pays."""
        self._allow("mem_efficient", enabled)

    def cudnn_sdp_enabled(self) -> bool:
        """What `enable_cudnn_sdp` was given last; True before."""
        return self._ways["cudnn"]

    def flash_sdp_enabled(self) -> bool:
        """What `enable_flash_sdp` was given last; True before."""
        return self._ways["flash"]

    def math_sdp_enabled(self) -> bool:
        """What `enable_math_sdp` was given last; True before."""
        return self._ways["math"]

    def mem_efficient_sdp_enabled(self) -> bool:
        """What `enable_mem_efficient_sdp` was given last; True before."""
        return self._ways["mem_efficient"]

    def _allow(self, way: str, enabled: bool) -> None:
        self._ways[way] = as_bool(f"enable_{way}_sdp: 'enabled'", enabled)


cuda = _CUDA()
cudnn = Library(
    "backends.cudnn", enabled=False, deterministic=True, benchmark=False, allow_tf32=False
)
mkldnn = Library("backends.mkldnn", enabled=False)
mkl, mps, openmp = (Library(f"backends.{name}") for name in ("mkl", "mps", "openmp"))

_PRECISIONS = ("highest", "high", "medium")
_asked = {"deterministic": False, "precision": "highest"}


def set_float32_matmul_precision(precision: str) -> None:
    """Give leave for products of float32 to be less exact, by ``"high"`` or ``"medium"``;
    ``"highest"``, as it is before, takes it back.

    Programs for a GPU that are compiled from then on make use of it: tensor cores multiply matrices
    that are rounded to TF32, 10 bits behind the point, and add up in float32. All else, such as
    products on a CPU, of eager tensors and of those programs that are compiled already, is as it
    was. Raises `ArgumentError` for another word.
    """
    if precision not in _PRECISIONS:
        raise ArgumentError(
            f"set_float32_matmul_precision: must be one of {', '.join(map(repr, _PRECISIONS))}, "
            f"not {precision!r}, at {format_locs(here())}"
        )
    _asked["precision"] = precision
    config.tf32 = precision != "highest"


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given last, and ``"highest"`` before; ``"high"`` or
    ``"highest"`` where that was said otherwise since."""
    if config.tf32 == (_asked["precision"] != "highest"):
        return str(_asked["precision"])
    return "high" if config.tf32 else "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that are the same at each run, which they are, whatever ``mode`` says;
    ``warn_only`` has nothing to warn of."""
    as_bool("use_deterministic_algorithms: 'warn_only'", warn_only)
    _asked["deterministic"] = as_bool("use_deterministic_algorithms: 'mode'", mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was given last; False before."""
    return bool(_asked["deterministic"])
