"""Datasets and their batches, under the names of `torch.utils.data`."""

from staticflow.utils.data.dataset import (
    ConcatDataset,
    Dataset,
    Subset,
    TensorDataset,
    random_split,
)
from staticflow.utils.data.loader import DataLoader, default_collate

__all__ = [
    "ConcatDataset", "DataLoader", "Dataset", "Subset", "TensorDataset", "default_collate",
    "random_split",
]  # fmt: skip
