"""The command line's jobs."""
