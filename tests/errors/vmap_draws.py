# raises ArgumentError
# says draws random numbers, and randomness is "error"; give randomness="different"
import staticflow as sf


def noisy(x):
    return x + sf.randn(3)  # <-- error


sf.vmap(noisy)(sf.ones(2, 3))
