"""Elements by numbers or masks that tensors hold: taken, replaced, added to."""
