"""Variances, norms, quantiles, distances."""
