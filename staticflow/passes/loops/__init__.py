"""Passes over loops and branches, each in a module of its name."""
