"""Programs for two devices at once: the same graph compiled for the CPU and for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import staticflow as sf
from staticflow import pytree
from staticflow.nn import functional as F

__all__ = [
    "CHECKS", "SIZES", "assert_alike", "check_shapes", "check_sizes", "compiled", "normal", "rnn",
]  # fmt: skip

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Any:
    """Random numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def compiled(
    fn: Callable[..., Any], arrays: Sequence[Array], device: str, unknown: bool = True
) -> sf.static.compile.Program:
    """``fn`` compiled for arrays of these dtypes and ranks; sizes other than 1 are unknown ones."""
    inputs = [
        sf.placeholder(
            tuple(None if unknown and n != 1 else n for n in a.shape), a.dtype.name, name=f"x{i}"
        )
        for i, a in enumerate(arrays)
    ]
    return sf.compile(inputs, fn(*inputs), device=device)


def on_both(fn: Callable[..., Any], *arrays: Array) -> list[Array]:
    """What ``fn`` gives of arrays on the GPU, which is what it gives on the CPU: kernel by kernel,
    as it is captured, and again, of other arrays between."""
    on_cpu, on_gpu = (compiled(fn, arrays, device) for device in ("cpu", "cuda"))
    wanted = on_cpu(*arrays)
    first = on_gpu(*arrays)
    others = [a[::-1].copy() if a.ndim else a for a in arrays]
    assert_alike(on_gpu(*others), on_cpu(*others))
    assert_alike(first, wanted)
    return assert_alike(on_gpu(*arrays), wanted)


def assert_alike(found: Any, wanted: Any, rtol: float = 2e-5) -> list[Array]:
    """The arrays of a tree of tensors of a GPU, which are those of one of the CPU."""
    leaves, structure = pytree.flatten(found)
    others, other_structure = pytree.flatten(wanted)
    assert structure == other_structure
    assert all(t.is_cuda for t in leaves) and not any(t.is_cuda for t in others)
    arrays = [t.detach().cpu().numpy() for t in leaves]
    for a, t in zip(arrays, others, strict=True):
        b = t.detach().numpy()
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)
    return arrays


SIZES = ["known", "unknown"]
"""How the sizes of a program are, for `check_shapes`."""


def check_shapes(
    fn: Callable[[Any, Any], Any],
    cases: Iterable[tuple[tuple[int, ...], Any]],
    sizes: str,
    rtol: float,
) -> None:
    """``fn`` of an array of a shape and of a dim gives on a GPU what it gives on the CPU, in each of
    the ``cases``. Those whose unknown sizes are of one program are compiled once."""
    programs: dict[Any, Any] = {}
    for shape, dim in cases:
        x = normal(*shape)
        kind = tuple(n == 1 for n in shape) if sizes == "unknown" else shape
        if (kind, dim) not in programs:
            programs[kind, dim] = [
                compiled(lambda x, dim=dim: fn(x, dim), [x], device, sizes == "unknown")
                for device in ("cpu", "cuda")
            ]
        on_cpu, on_gpu = programs[kind, dim]
        assert_alike(on_gpu(x), on_cpu(x), rtol=rtol)


# -- values ----------------------------------------------------------------------------------------


def check_sizes() -> None:
    def fn(x: Any, w: Any) -> Any:
        h = F.softmax(x @ w, dim=1)
        return {"h": h, "sum": (h * h).sum(), "sorted": sf.sort(h, dim=0).values}

    example = normal(5, 3), normal(3, 4)
    on_cpu, on_gpu = (compiled(fn, example, device) for device in ("cpu", "cuda"))
    for n, k, m in ((5, 3, 4), (1, 3, 4), (0, 3, 4), (5, 0, 4), (300, 2, 3)):
        x, w = normal(n, k, seed=n), normal(k, m, seed=k)
        assert_alike(on_gpu(x, w), on_cpu(x, w))
    assert on_gpu.compile_count == 1


def check_kinds() -> None:
    x, y = normal(6, 7), normal(7, 5)
    images, weight = normal(2, 4, 9, 8), normal(6, 2, 3, 3)
    on_both(lambda a, b: F.relu(a @ b), x, y)
    on_both(lambda a, w: F.conv2d(a, w, stride=2, padding=1, groups=2), images, weight)
    on_both(lambda a: F.max_pool2d(a, 2), images)
    on_both(lambda a: (a.cumsum(1), a.T.flip(0), sf.cat([a, a]), a[1:, ::2]), x)
    on_both(lambda a: sf.linalg.cholesky(a @ a.T + 9 * np.eye(6, dtype=np.float32)), x)
    on_both(lambda a: F.scaled_dot_product_attention(a, a, a), images)


# -- training -------------------------------------------------------------------------------------


def train(device: str, model: Any, loss: Any, arrays: Any, optimiser: Any, steps: int = 3) -> Any:
    """The losses, and the parameters afterwards, of steps from the same beginning."""
    sf.manual_seed(1)
    net = model()
    net.to(device)
    opt = optimiser(net.parameters())
    inputs = [
        sf.placeholder((None, *a.shape[1:]), a.dtype.name, name=f"x{i}")
        for i, a in enumerate(arrays)
    ]
    *xs, target = inputs
    cost = loss(net(*xs), target)
    step = sf.compile(inputs, cost, updates=opt.minimize(cost))
    assert step.device.type == device
    losses = [step(*arrays) for _ in range(steps)]
    return losses, list(net.parameters())


def assert_trains_alike(*what: Any) -> None:
    assert_alike(train("cuda", *what), train("cpu", *what), rtol=2e-4)


def check_two_layers() -> None:
    def model() -> Any:
        return sf.nn.Sequential(sf.nn.Linear(20, 10), sf.nn.ReLU(), sf.nn.Linear(10, 3))

    arrays = normal(8, 20), np.arange(8) % 3
    assert_trains_alike(
        model, F.cross_entropy, arrays, lambda p: sf.optim.SGD(p, lr=0.1, momentum=0.9)
    )
    assert_trains_alike(model, F.cross_entropy, arrays, lambda p: sf.optim.Adam(p, lr=0.01))


def check_lenet() -> None:
    from examples.lenet import LeNet, loss

    arrays = normal(2, 1, 32, 32), np.array([3, 7])
    assert_trains_alike(LeNet, loss, arrays, lambda p: sf.optim.SGD(p, lr=0.01), 1)


def check_transformer() -> None:
    class Net(sf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = sf.nn.Embedding(11, 8)
            self.layer = sf.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
            self.out = sf.nn.Linear(8, 11)

        def forward(self, x: Any) -> Any:
            return self.out(self.layer(self.embed(x))).flatten(0, 1)

    # not by Adam, which makes a step of the rounding that is the gradient of a key's bias
    tokens = np.random.default_rng(0).integers(0, 11, (2, 5))
    assert_trains_alike(
        Net,
        lambda scores, target: F.cross_entropy(scores, target.flatten()),
        (tokens, tokens),
        lambda p: sf.optim.SGD(p, lr=0.1),
        2,
    )


def check_generators() -> None:
    def draws(device: str) -> Any:
        sf.manual_seed(5)
        x = sf.placeholder((None,), name="x")
        program = sf.compile([x], F.dropout(x, 0.5), device=device)
        ones = np.ones(40, np.float32)
        return [program(ones), program(ones)], sf.rand(3)

    (first, second), after = draws("cuda")
    wanted, after_on_cpu = draws("cpu")
    assert_alike([first, second], wanted)
    assert (after.numpy() == after_on_cpu.numpy()).all()
    assert (first.cpu().numpy() != second.cpu().numpy()).any()


# -- loops and late sizes --------------------------------------------------------------------------


def rnn(xs: Any, w: Any) -> Any:
    """A loss of a recurrent network, its last state, and the gradients."""

    def body(h: Any, x: Any) -> Any:
        h = (x + h @ w).tanh()
        return h, h.sum()

    last, sums = sf.scan(body, w[0] * 0, xs)
    loss = (sums * sums).sum()
    return loss, last, *sf.grad(loss, [xs, w])


def check_loops() -> None:
    for steps in (4, 1, 0):
        on_both(rnn, normal(steps, 3), normal(3, 3))

    def halve(x: Any) -> Any:
        return sf.while_loop(lambda y: (y * y).sum() > 1, lambda y: y / 2 + y[::-1] * 0.1, x)

    on_both(halve, normal(4) * 100)
    on_both(halve, normal(4) * 1e-3)

    def until(xs: Any) -> Any:
        return sf.scan(
            lambda c, x: (c + x @ xs.T, (c + x.sum()).sum()), xs[:, 0] * 0, xs,
            until=lambda c, y: y > 1.5,
        )  # fmt: skip

    on_both(until, np.abs(normal(5, 3)))
    on_both(lambda x: sf.cond(x.sum() > 0, lambda: x @ x.T, lambda: x.T @ x), normal(3, 3))


def check_late_sizes() -> None:
    x = normal(5, 4)
    on_both(lambda a: (sf.nonzero(a > 0), a[a > 0].exp()), x)
    on_both(lambda a: sf.nonzero(a > 9), x)


CHECKS = (
    check_sizes, check_kinds, check_two_layers, check_lenet, check_transformer, check_generators,
    check_loops, check_late_sizes,
)  # fmt: skip
"""What holds on every device."""
