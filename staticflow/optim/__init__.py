"""Optimisers, one definition for both modes."""
