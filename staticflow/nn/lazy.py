"""Layers that learn the number of their inputs from the first call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Size, closed_size, fresh_sym
from staticflow.graph.locs import format_locs, here
from staticflow.nn import conv, linear, normalization
from staticflow.nn.module import Module
from staticflow.nn.parameter import UninitializedBuffer, UninitializedParameter, is_uninitialized
from staticflow.ops.declaring.thread import thread
from staticflow.ops.declaring.tracing import computing_apart
from staticflow.ops.random.sampling import default_source

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class LazyModuleMixin(Module):
    """A module some of whose parameters and buffers have no sizes before the first call.

    A subclass holds `UninitializedParameter` and `UninitializedBuffer` objects, and gives
    `initialize_parameters`, which materializes them. The first call, eager or traced, calls that
    with its arguments, and then makes the module one of the class ``cls_to_become``, unless that is
    None. Raises `ShapeError` where something is left without sizes.

    >>> import staticflow as sf
    >>> from staticflow.nn import UninitializedParameter
    >>> class Scale(LazyModuleMixin):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = UninitializedParameter()
    ...     def initialize_parameters(self, x):
    ...         if self.has_uninitialized_params():
    ...             self.factor.materialize(x.shape[-1:])
    ...             sf.nn.init.ones_(self.factor)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale(sf.ones(2, 3)).shape, scale.factor.shape
    ((2, 3), (3,))
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Give the parameters their sizes, and call the module that this has become."""
        with self._undone_by_failure():
            with computing_apart():
                self.initialize_parameters(*args, **kwargs)
            left = [name for name, _ in self._open_ones()]
            if left:
                raise ShapeError(
                    f"{type(self).__name__}: initialize_parameters has left {', '.join(left)} "
                    "without sizes; it must materialize all that are not initialized, "
                    f"at {format_locs(here())}"
                )
            if self.cls_to_become is None:
                return super().__call__(*args, **kwargs)
            object.__setattr__(self, "__class__", self.cls_to_become)
            return self(*args, **kwargs)

    @contextmanager
    def _undone_by_failure(self) -> Iterator[None]:
        """A block whose failure leaves the module, what it holds open and the generator as they
        were."""
        kind, held, drawn = type(self), dict(vars(self)), default_source[0].position()
        states = [(t, type(t), t._data, t._memory) for _, t in self._open_ones()]
        try:
            yield
        except BaseException:
            for tensor, of_tensor, data, memory in states:
                tensor.__class__, tensor._data, tensor._memory = of_tensor, data, memory
            object.__setattr__(self, "__class__", kind)
            vars(self).clear()
            vars(self).update(held)
            default_source[0].go_back(drawn)
            raise

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give sizes and values to what has none, by the arguments of the first call."""
        raise NotImplementedError(
            f"{type(self).__name__} does not define initialize_parameters, at {format_locs(here())}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of its own has no sizes yet."""
        return any(True for _ in self._open_ones())

    def shape_needed(self, name: str, shape: tuple[int, ...]) -> str:
        """The shape that the open parameter or buffer ``name`` takes, in words, if ``shape`` is
        none such; else empty."""
        return ""

    def _open_ones(self) -> list[tuple[str, Any]]:
        own = (*self._own_parameters(), *self._own_buffers())
        return [(name, tensor) for name, tensor in own if is_uninitialized(tensor)]


class _LazyLayer(LazyModuleMixin):
    """A layer of the library of which one size, the attribute ``_size``, is that of a dim of the
    first input."""

    _size: ClassVar[str]
    _parameters_to_be: ClassVar[tuple[str, ...]] = ("weight", "bias")
    _buffers_to_be: ClassVar[tuple[str, ...]] = ()

    def _leave_open(self, device: Any, dtype: Any) -> None:
        """Let what depends on the open size wait for the first call."""
        for name in self._parameters_to_be:
            if vars(self).get(name) is not None:
                setattr(self, name, UninitializedParameter(device=device, dtype=dtype))
        for name in self._buffers_to_be:
            if vars(self).get(name) is not None:
                setattr(self, name, UninitializedBuffer(device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Start the parameters anew, if they have sizes already."""
        if not self.has_uninitialized_params() and getattr(self, self._size):
            plain: Any = super()
            plain.reset_parameters()

    def _axis(self, input: Any) -> int:
        """The dim of ``input`` that tells the open size; raises `ShapeError` for another rank than
        the layer takes."""
        raise NotImplementedError

    def _shapes(self, size: Size) -> dict[str, tuple[Size, ...]]:
        """The shape of each parameter and buffer that depends on ``size``, the open one."""
        raise NotImplementedError

    def _check_size(self, size: int) -> None:
        """Raise `ShapeError` for a size that the layer cannot have."""

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Take the size from ``input``, and start what has no sizes yet as the plain layer does.
        What was loaded before stays. Raises `ShapeError`, before anything is changed, for an input
        that the layer does not take, one whose size is not known, or not that of what was
        loaded."""
        axis = self._axis(input)
        size = self._find_size(input, axis)
        self._check_size(size)
        wanted = self._shapes(size)
        own = {n: t for n, t in vars(self).items() if n in wanted and t is not None}
        loaded = {n: t for n, t in own.items() if not is_uninitialized(t)}
        for name, tensor in loaded.items():
            if tensor.shape != wanted[name]:
                raise ShapeError(
                    f"{type(self).__name__}: {name}, which was loaded, has shape "
                    f"{list(tensor.shape)}, and an input of shape {list(input.shape)} asks for "
                    f"{list(wanted[name])}; load another state, or give an input of the sizes "
                    f"that it is for, at {format_locs(here())}"
                )
        with self._undone_by_failure():
            setattr(self, self._size, size)
            if len(loaded) < len(own):
                self._begin(own, loaded, wanted)

    def _begin(self, own: dict[str, Any], loaded: dict[str, Any], wanted: dict[str, Any]) -> None:
        """The first values; those that were loaded stay what they were."""
        values = [(t, t.detach().clone()) for t in loaded.values()]
        try:
            for name, tensor in own.items():
                if name not in loaded:
                    tensor.materialize(wanted[name])
            self.reset_parameters()
        finally:
            for tensor, value in values:
                tensor.detach()[...] = value

    def _find_size(self, input: Any, axis: int) -> int:
        """The size of the dim ``axis`` as a number: in a trace of ``jit`` that of the call which it
        is made for."""
        size = input.shape[axis]
        try:
            return evaluate_dim(closed_size(size), thread.state.examples)
        except KeyError:
            raise ShapeError(
                f"{type(self).__name__}: dim {axis} of the first input, of shape "
                f"{list(input.shape)}, is the number of its {self._size}, and is not known here; "
                "call the layer once on a tensor before, or write the size in the placeholder, "
                f"at {format_locs(here())}"
            ) from None

    def shape_needed(self, name: str, shape: tuple[int, ...]) -> str:
        sizes = {d * k for d in shape for k in (1, getattr(self, "groups", 1))}
        if any(self._shapes(size)[name] == shape for size in sizes):
            return ""
        return str(list(self._shapes(fresh_sym(self._size))[name]))


class LazyLinear(_LazyLayer, linear.Linear):
    """A `Linear` whose ``in_features`` is the last size of the first input; the first call makes it
    a `Linear`.

    Until then ``weight`` and ``bias`` are `UninitializedParameter` objects, the same ones that have
    values later: an optimiser may be made of them before, and a state be loaded.

    >>> import staticflow as sf
    >>> layer = LazyLinear(5)
    >>> layer
    LazyLinear(in_features=0, out_features=5, bias=True)
    >>> layer(sf.ones(2, 3)).shape, layer
    ((2, 5), Linear(in_features=3, out_features=5, bias=True))
    """

    cls_to_become = linear.Linear
    _size = "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, out_features, bias, device, dtype)
        self._leave_open(device, dtype)

    def _axis(self, input: Any) -> int:
        if input.ndim < 1:
            raise ShapeError(
                f"LazyLinear: takes an input of 1 dim at least, not of shape {list(input.shape)}, "
                f"at {format_locs(here())}"
            )
        return int(input.ndim) - 1

    def _shapes(self, size: Size) -> dict[str, tuple[Size, ...]]:
        return {"weight": (self.out_features, size), "bias": (self.out_features,)}


class _LazyConvNd(_LazyLayer, conv._ConvNd):
    _size = "in_channels"

    def _axis(self, input: Any) -> int:
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                f"{type(self).__name__}: takes an input of {self.rank + 1} or {self.rank + 2} "
                f"dims, not of shape {list(input.shape)}, at {format_locs(here())}"
            )
        return int(input.ndim) - self.rank - 1

    def _check_size(self, size: int) -> None:
        if size % self.groups:
            raise ShapeError(
                f"{type(self).__name__}: the input has {size} channels, which must be a multiple "
                f"of groups {self.groups}, at {format_locs(here())}"
            )

    def _shapes(self, size: Size) -> dict[str, tuple[Size, ...]]:
        rows, columns = self._rows_and_columns(size)
        return {
            "weight": (rows, columns // self.groups, *self.kernel_size),
            "bias": (self.out_channels,),
        }


class _LazyConv(_LazyConvNd, conv._Conv):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip
        self._leave_open(device, dtype)


class LazyConv1d(_LazyConv, conv.Conv1d):
    """A `Conv1d` whose ``in_channels`` is that of the first input; the first call makes it a
    `Conv1d`. Until then its parameters are those of `LazyLinear`."""

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    """A `Conv2d` whose ``in_channels`` is that of the first input; the first call makes it a
    `Conv2d`. Until then its parameters are those of `LazyLinear`.

    >>> import staticflow as sf
    >>> net = sf.nn.Sequential(LazyConv2d(4, 3), sf.nn.Flatten(), sf.nn.LazyLinear(2))
    >>> net(sf.ones(1, 3, 5, 5)).shape, net[0].in_channels, net[2].in_features
    ((1, 2), 3, 36)
    """

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    """A `Conv3d` whose ``in_channels`` is that of the first input; the first call makes it a
    `Conv3d`. Until then its parameters are those of `LazyLinear`."""

    cls_to_become = conv.Conv3d


class _LazyConvTranspose(_LazyConvNd, conv._ConvTranspose):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._leave_open(device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    """A `ConvTranspose1d` whose ``in_channels`` is that of the first input; the first call makes it
    a `ConvTranspose1d`. Until then its parameters are those of `LazyLinear`."""

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    """A `ConvTranspose2d` whose ``in_channels`` is that of the first input; the first call makes it
    a `ConvTranspose2d`. Until then its parameters are those of `LazyLinear`."""

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    """A `ConvTranspose3d` whose ``in_channels`` is that of the first input; the first call makes it
    a `ConvTranspose3d`. Until then its parameters are those of `LazyLinear`."""

    cls_to_become = conv.ConvTranspose3d


class _LazyNorm(_LazyLayer, normalization._RunningNorm):
    _size = "num_features"
    _buffers_to_be = ("running_mean", "running_var")

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self._leave_open(device, dtype)

    def _axis(self, input: Any) -> int:
        self._check(input)
        return self._channels_of(input)

    def _channels_of(self, input: Any) -> int:
        return 1

    def _shapes(self, size: Size) -> dict[str, tuple[Size, ...]]:
        return dict.fromkeys((*self._parameters_to_be, *self._buffers_to_be), (size,))


class LazyBatchNorm1d(_LazyNorm, normalization.BatchNorm1d):
    """A `BatchNorm1d` whose ``num_features`` is that of the first input; the first call makes it a
    `BatchNorm1d`. Until then its parameters and running statistics have no sizes.

    >>> import staticflow as sf
    >>> norm = LazyBatchNorm1d()
    >>> norm.running_mean
    <UninitializedBuffer>
    >>> norm(sf.ones(4, 3)).shape, norm.running_mean
    ((4, 3), tensor([0.1000, 0.1000, 0.1000]))
    """

    cls_to_become = normalization.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, normalization.BatchNorm2d):
    """A `BatchNorm2d` whose ``num_features`` is that of the first input; the first call makes it a
    `BatchNorm2d`. Until then its parameters and running statistics have no sizes."""

    cls_to_become = normalization.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, normalization.BatchNorm3d):
    """A `BatchNorm3d` whose ``num_features`` is that of the first input; the first call makes it a
    `BatchNorm3d`. Until then its parameters and running statistics have no sizes."""

    cls_to_become = normalization.BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    def _channels_of(self, input: Any) -> int:
        return 0 if input.ndim == self.ndims[0] else 1


class LazyInstanceNorm1d(_LazyInstanceNorm, normalization.InstanceNorm1d):
    """An `InstanceNorm1d` whose ``num_features`` is that of the first input; the first call makes
    it an `InstanceNorm1d`. As in PyTorch it has a weight, a bias and running statistics unless told
    otherwise."""

    cls_to_become = normalization.InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, normalization.InstanceNorm2d):
    """An `InstanceNorm2d` whose ``num_features`` is that of the first input; the first call makes
    it an `InstanceNorm2d`. As in PyTorch it has a weight, a bias and running statistics unless told
    otherwise."""

    cls_to_become = normalization.InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, normalization.InstanceNorm3d):
    """An `InstanceNorm3d` whose ``num_features`` is that of the first input; the first call makes
    it an `InstanceNorm3d`. As in PyTorch it has a weight, a bias and running statistics unless told
    otherwise."""

    cls_to_become = normalization.InstanceNorm3d
