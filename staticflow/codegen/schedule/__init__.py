"""Schedules: a kernel becomes one that computes the same, faster; `cpu` chooses them for a CPU,
`gpu` for a GPU."""
