"""What is computed along a dim: extremes, running values, order, softmax."""
