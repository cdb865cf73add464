"""Operators, methods and subscripts that tensors and symbols have."""
