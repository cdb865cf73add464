"""Random numbers, the same in both modes."""
