"""A stand-in that plays cupy over NumPy, with two GPUs, for machines without one.

It has the names of cupy and no others, and each takes what cupy's takes, by the table that
`make_cupy` has written of the installed wheel. Where cupy means something else by a name than NumPy,
the stand-in does, too: see `functions` and `arrays`.
"""

from fake_cupy.modules import fake_cupy, install, on_gpu

__all__ = ["fake_cupy", "install", "on_gpu"]
