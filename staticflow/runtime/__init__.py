"""Native code in memory, the plan of buffers, and the call of a compiled program."""
