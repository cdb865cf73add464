"""Tables of vectors."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.nn.init import normal_
from staticflow.nn.module import Module
from staticflow.nn.parameter import Parameter, new_parameter
from staticflow.ops.declaring.foreign import own_method
from staticflow.ops.random.sampling import gives_back

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """`F.embedding` in a ``weight`` (num_embeddings, embedding_dim) that starts from the standard
    normal distribution; the row ``padding_idx`` starts as 0 and is not trained. Rows of a norm
    above ``max_norm`` are scaled down to it when they are read.

    >>> import staticflow as sf
    >>> Embedding(10, 3)(sf.tensor([[1, 2, 4, 5]])).shape
    (1, 4, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0,
        *, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ShapeError(
                f"Embedding: padding_idx {padding_idx} is outside the {num_embeddings} embeddings, "
                f"at {format_locs(here())}"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = new_parameter(num_embeddings, embedding_dim, dtype=dtype, device=device)
        self.reset_parameters()

    @classmethod
    @gives_back
    @partial(own_method, suffix=".from_pretrained")
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None
    ) -> Self:
        """A layer on the memory of the matrix ``embeddings``; with ``freeze`` it is not trained."""
        if embeddings.ndim != 2:
            raise ShapeError(
                f"Embedding.from_pretrained: takes a matrix, not shape {list(embeddings.shape)}, "
                f"at {format_locs(here())}"
            )
        rows = embeddings.shape[0]
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise ShapeError(
                f"Embedding.from_pretrained: padding_idx {padding_idx} is outside the {rows} "
                f"embeddings, at {format_locs(here())}"
            )
        layer = cls(0, embeddings.shape[1], dtype=embeddings.dtype)
        layer.num_embeddings = rows
        layer.padding_idx = None if padding_idx is None else padding_idx % rows
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draw the weight anew."""
        normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.detach()[self.padding_idx] = 0.0

    def forward(self, input: Any) -> Any:
        """Integers ``input`` (...) to (..., embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type)

    def extra_repr(self) -> str:
        """The sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        norm = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{norm}"


class EmbeddingBag(Embedding):
    """`F.embedding_bag` in a ``weight`` (num_embeddings, embedding_dim): the sum, mean or maximum
    (``mode``) of several rows.

    >>> import staticflow as sf
    >>> EmbeddingBag(10, 3, mode="sum")(sf.tensor([[1, 2], [4, 5]])).shape
    (2, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, mode: str = "mean",
        include_last_offset: bool = False, padding_idx: int | None = None,
        *, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, padding_idx, device=device, dtype=dtype)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """Integers (bags, n), or a vector cut at ``offsets``, to (bags, embedding_dim)."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{super().extra_repr()}, mode={self.mode!r}"
