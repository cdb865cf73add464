"""Mathematical functions, written in primitives of Kernel IR; `scalars` has them all as methods."""
