"""Tables of vectors."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.nn.functional.embedding import check_mode, refuse_sparse
from staticflow.nn.init import normal_
from staticflow.nn.module import Module
from staticflow.nn.parameter import Parameter, new_parameter
from staticflow.ops.declaring.foreign import own_method
from staticflow.ops.random.sampling import gives_back

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """`F.embedding` in a ``weight`` (num_embeddings, embedding_dim) that starts from the standard
    normal distribution; the row ``padding_idx`` starts as 0 and is not trained. Rows of a norm
    above ``max_norm`` are scaled down to it when they are read. With ``scale_grad_by_freq`` the
    gradient of a row is divided by how often it is read in a call. ``sparse`` gradients are
    refused.

    >>> import staticflow as sf
    >>> Embedding(10, 3)(sf.tensor([[1, 2, 4, 5]])).shape
    (1, 4, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, sparse: bool = False,
        _weight: Any = None, _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        refuse_sparse(type(self).__name__, sparse)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _row(type(self).__name__, padding_idx, num_embeddings)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if _weight is not None:
            self.weight = _given_weight(self, _weight, _freeze)
            return
        self.weight = new_parameter(num_embeddings, embedding_dim, dtype=dtype, device=device)
        self.weight.requires_grad = not _freeze
        self.reset_parameters()

    @classmethod
    @gives_back
    @partial(own_method, suffix=".from_pretrained")
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Self:  # fmt: skip
        """A layer on the memory of the matrix ``embeddings``; with ``freeze`` it is not trained.
        The other arguments are those of the layer."""
        return cls._on(
            embeddings, freeze, padding_idx, max_norm=max_norm, norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, _freeze=freeze,
        )  # fmt: skip

    @classmethod
    def _on(cls, embeddings: Any, freeze: bool, padding_idx: int | None, **more: Any) -> Self:
        """A layer on the memory of ``embeddings``, made with the arguments ``more``."""
        if embeddings.ndim != 2:
            raise ShapeError(
                f"{cls.__name__}.from_pretrained: takes a matrix, not shape "
                f"{list(embeddings.shape)}, at {format_locs(here())}"
            )
        rows, columns = embeddings.shape
        layer = cls(rows, columns, padding_idx=padding_idx, _weight=embeddings, **more)
        layer.weight.requires_grad = not freeze
        return layer

    def reset_parameters(self) -> None:
        """Draw the weight anew."""
        normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.detach()[self.padding_idx] = 0.0

    def forward(self, input: Any) -> Any:
        """Integers ``input`` (...) to (..., embedding_dim)."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        norm = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        scaled = f", scale_grad_by_freq={self.scale_grad_by_freq}" * bool(self.scale_grad_by_freq)
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{norm}{scaled}"


def _given_weight(layer: Embedding, weight: Any, freeze: bool) -> Parameter:
    """The matrix ``weight`` as the parameter of ``layer``, on its memory."""
    wanted = [layer.num_embeddings, layer.embedding_dim]
    if list(weight.shape) != wanted:
        raise ShapeError(
            f"{type(layer).__name__}: _weight has shape {list(weight.shape)}, and {wanted} is "
            f"needed, at {format_locs(here())}"
        )
    return Parameter(weight, requires_grad=not freeze)


def _row(what: str, padding_idx: int | None, rows: int) -> int | None:
    """The row ``padding_idx`` of so many, counted from the front."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ShapeError(
            f"{what}: padding_idx {padding_idx} is outside the {rows} embeddings, "
            f"at {format_locs(here())}"
        )
    return padding_idx % rows


class EmbeddingBag(Embedding):
    """`F.embedding_bag` in a ``weight`` (num_embeddings, embedding_dim): the sum, mean or maximum
    (``mode``) of several rows. The other arguments are those of `Embedding`.

    >>> import staticflow as sf
    >>> EmbeddingBag(10, 3, mode="sum")(sf.tensor([[1, 2], [4, 5]])).shape
    (2, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int,
        max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
        _weight: Any = None, include_last_offset: bool = False, padding_idx: int | None = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, device=device, dtype=dtype,
        )  # fmt: skip
        check_mode(type(self).__name__, mode, scale_grad_by_freq)
        self.mode, self.include_last_offset = mode, include_last_offset

    @classmethod
    @gives_back
    @partial(own_method, suffix=".from_pretrained")
    def from_pretrained(  # type: ignore[override]  # in PyTorch's order
        cls, embeddings: Any, freeze: bool = True,
        max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
        include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> Self:  # fmt: skip
        """A layer on the memory of the matrix ``embeddings``; with ``freeze`` it is not trained.
        The other arguments are those of the layer."""
        return cls._on(
            embeddings, freeze, padding_idx, max_norm=max_norm, norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse,
            include_last_offset=include_last_offset,
        )  # fmt: skip

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """Integers (bags, n), or a vector cut at ``offsets``, to (bags, embedding_dim)."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{super().extra_repr()}, mode={self.mode!r}"
