"""Loops and branches, and the functions that they trace."""
