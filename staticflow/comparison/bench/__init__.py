"""The benchmarks of a checkout: what they are, how they are run, what they measured."""
