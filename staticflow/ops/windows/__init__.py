"""Sums and extremes over windows of images."""
