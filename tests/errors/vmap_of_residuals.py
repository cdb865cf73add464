# raises ArgumentError
# says lstsq: the residuals are used in a graph
# says compute ((A @ X - B) ** 2).sum(-2)
import staticflow as sf


def residuals(a, b):
    return sf.linalg.lstsq(a, b).residuals  # <-- error


sf.vmap(residuals)(sf.zeros(3, 4, 2), sf.zeros(3, 4, 1))
