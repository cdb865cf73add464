"""staticflow: one set of tensor operations, define-then-run and define-by-run."""
