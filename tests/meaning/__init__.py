"""What a program means outside the ops: one table of small programs, run in every way."""
