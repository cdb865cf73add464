"""What a user holds of a graph, and the gradients of it."""
