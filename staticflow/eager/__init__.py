"""Define-by-run: tensors that compute now, and the tape."""
