"""Functions of each element by itself."""
