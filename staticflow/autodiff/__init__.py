"""The reverse walk that both modes share."""
