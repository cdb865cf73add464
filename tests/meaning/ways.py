"""The ways in which a function of the table runs, and what each gives: values and gradients."""

from typing import Any

import staticflow as sf
from staticflow.ops.declaring.tracing import tracing

X, W = [0.5, -1.25, 2.0], [1.5, 0.75, -0.5]

Answer = dict[str, Any]


def weighed(y: Any) -> Any:
    """One number of a result, in which its elements count differently."""
    return (y * y * sf.tensor([1.0, 2.0, 3.0])).sum()


def eager(fn: Any) -> Answer:
    x, w = sf.tensor(X, requires_grad=True), sf.tensor(W, requires_grad=True)
    y = fn(x, w)
    if not y.requires_grad:
        return {"value": y.tolist(), "x": None, "w": None}
    weighed(y).backward()
    return {"value": y.tolist(), "x": _listed(x.grad), "w": _listed(w.grad)}


def jitted(fn: Any) -> Answer:
    return eager(sf.jit(fn))


def compiled(fn: Any) -> Answer:
    x, w = sf.placeholder((3,), name="x"), sf.placeholder((3,), name="w")
    y = fn(x, w)
    grads = sf.grad(weighed(y), [x, w], allow_unused=True)
    found = sf.compile([x, w], [y, *(g for g in grads if g is not None)])(X32, W32)
    rest = iter(found[1:])
    gx, gw = (None if g is None else next(rest).tolist() for g in grads)
    return {"value": found[0].tolist(), "x": gx, "w": gw}


def of_a_parameter(fn: Any) -> Answer:
    """Compiled, where ``w`` is a tensor that the graph captures."""
    x, w = sf.placeholder((3,), name="x"), sf.tensor(W, requires_grad=True)
    with tracing():
        y = fn(x, w)
        grads = sf.grad(weighed(y), [x, w], allow_unused=True)
    found = sf.compile([x], [y, *(g for g in grads if g is not None)])(X32)
    rest = iter(found[1:])
    gx, gw = (None if g is None else next(rest).tolist() for g in grads)
    return {"value": found[0].tolist(), "x": gx, "w": gw}


X32, W32 = sf.tensor(X), sf.tensor(W)


def _listed(t: Any) -> Any:
    return None if t is None else t.tolist()


# -- inside loops and branches --------------------------------------------------------------------


def in_scan(fn: Any) -> Any:
    """Two steps of a scan."""
    return lambda x, w: sf.scan(lambda c, _: (fn(c, w), None), x * 1, length=2)[0]


def in_while(fn: Any) -> Any:
    """Two steps of a while loop."""

    def run(x: Any, w: Any) -> Any:
        zero = (x[0] * 0).to(sf.int64)
        return sf.while_loop(lambda i, c: i < 2, lambda i, c: (i + 1, fn(c, w)), (zero, x * 1))[1]

    return run


def in_cond(fn: Any) -> Any:
    """The branch of a condition that holds."""
    return lambda x, w: sf.cond((x[0] * 0 == 0), lambda: fn(x * 1, w), lambda: x * 1)


def in_derivative(fn: Any) -> Any:
    """The gradient of a weighed sum by ``x``, so that its own gradient is a second derivative."""

    def run(x: Any, w: Any) -> Any:
        x = x * 1
        y = (fn(x, w) ** 3 * sf.tensor([1.0, 2.0, 3.0])).sum()
        return sf.grad(y, x, create_graph=True)

    return run


AROUND = {
    "plain": lambda fn: fn, "scan": in_scan, "while": in_while, "cond": in_cond,
    "derivative": in_derivative,
}  # fmt: skip
"""What stands around the function."""

WAYS = {"eager": eager, "compile": compiled, "parameter": of_a_parameter, "jit": jitted}
"""How the whole runs."""
