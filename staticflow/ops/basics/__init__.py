"""The ops that others are written in: arithmetic, creation, views, sums, joined tensors."""
