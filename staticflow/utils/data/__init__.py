"""Datasets and their batches, under the names of `torch.utils.data`."""

from staticflow.utils.data.dataset import Dataset, Subset, TensorDataset, random_split
from staticflow.utils.data.loader import DataLoader, default_collate

__all__ = [
    "DataLoader", "Dataset", "Subset", "TensorDataset", "default_collate", "random_split",
]  # fmt: skip
