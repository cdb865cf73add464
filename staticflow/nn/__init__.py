"""Layers and losses, one definition for both modes."""
