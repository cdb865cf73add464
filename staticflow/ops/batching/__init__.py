"""Functions of rows as functions of batches: for each op what it does to many rows at once."""
