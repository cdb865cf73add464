"""Define-then-run: placeholders, compile, grad and jit."""
