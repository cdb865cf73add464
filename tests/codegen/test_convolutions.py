"""Convolutions and their gradients against float64: sizes on both sides of what their kernels choose
by, layouts, unknown sizes, and threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import staticflow as sf
import staticflow.nn.functional as F
from staticflow.codegen.kernel import Let, Load, Set
from staticflow.codegen.unused import innermost_loops
from staticflow.ops import OPS
from staticflow.runtime.threads import pool_jobs

CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
Views = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A convolution: the input's and the weight's shape, its options."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1

    @property
    def rank(self) -> int:
        return len(self.x) - 2

    @property
    def options(self) -> dict[str, int]:
        names = ("stride", "padding", "dilation", "groups")
        return {name: getattr(self, name) for name in names}

    @property
    def attrs(self) -> dict[str, Any]:
        given = {n: (v,) * self.rank for n, v in self.options.items() if n != "groups"}
        return {**given, "groups": self.groups}


CASES = {
    "few channels out": Case((2, 5, 9, 8), (7, 5, 3, 3)),
    "few rows": Case((2, 15, 9, 8), (24, 15, 1, 1)),
    "enough rows": Case((2, 16, 9, 8), (8, 16, 1, 1)),
    "3 x 3": Case((3, 16, 17, 16), (48, 16, 3, 3), padding=1),
    "small images": Case((37, 32, 4, 4), (40, 32, 3, 3), padding=1),
    "images of one element": Case((5, 64, 1, 1), (64, 64, 3, 3), padding=1),
    "images of two": Case((130, 33, 2, 1), (65, 33, 1, 1)),
    "stride": Case((3, 16, 15, 15), (33, 16, 3, 3), stride=2, padding=1),
    "larger stride": Case((2, 16, 23, 22), (17, 16, 2, 2), stride=3),
    "stride of one element": Case((2, 24, 16, 16), (48, 24, 1, 1), stride=2),
    "dilation": Case((2, 12, 11, 9), (16, 12, 3, 2), padding=2, dilation=2),
    "groups": Case((2, 48, 9, 9), (32, 24, 3, 3), padding=1, groups=2),
    "many groups": Case((2, 32, 6, 6), (64, 2, 3, 3), padding=1, groups=16),
    "depthwise": Case((2, 24, 9, 9), (24, 1, 3, 3), padding=1, groups=24),
    "depthwise, of 25": Case((2, 12, 18, 17), (12, 1, 5, 5), padding=2, groups=12),
    "depthwise, with steps": Case((2, 6, 19, 18), (6, 1, 3, 3), stride=2, padding=1, groups=6),
    "depthwise, dilated": Case((2, 6, 19, 18), (6, 1, 3, 2), padding=2, dilation=2, groups=6),
    "window of 49": Case((2, 3, 20, 20), (33, 3, 7, 7), stride=2, padding=3),
    "1-D": Case((2, 20, 700), (16, 20, 5), padding=2),
    "3-D": Case((2, 6, 4, 5, 6), (24, 6, 2, 3, 2), stride=2, padding=1),
    "15 channels out": Case((2, 5, 6, 7), (15, 5, 3, 3)),
    "16 channels out": Case((2, 5, 6, 7), (16, 5, 3, 3)),
    "vectors not full": Case((2, 8, 6, 21), (24, 8, 2, 2)),
    "long rows apart": Case((1, 4, 3, 700), (18, 4, 3, 3), stride=2),
    "rows that fill three of seven panels": Case(
        (1, 4, 11, 223), (16, 4, 3, 3), stride=2, padding=1
    ),
    "rows of many that fill panels": Case((2, 4, 29, 55), (17, 4, 3, 3), stride=2, padding=1),
    "large windows": Case((1, 3, 20, 36), (16, 3, 15, 15)),
    "larger windows": Case((1, 3, 22, 40), (16, 3, 17, 17)),
    "blocks of some rows": Case((2, 40, 60, 34), (9, 40, 3, 3), padding=1),
    "many positions": Case((2, 16, 40, 33), (24, 16, 1, 1)),
    "few rows, positions in parts": Case((64, 6, 14, 14), (16, 6, 5, 5)),
    "few rows of groups, in parts": Case((20, 12, 17, 16), (32, 6, 3, 3), groups=2),
    "deep": Case((2, 130, 5, 6), (40, 130, 3, 3), padding=1),
    "many channels": Case((1, 512, 2, 3), (520, 512, 1, 1)),
    "one image": Case((1, 32, 8, 8), (64, 32, 3, 3), padding=1),
    "rows of several tasks": Case((1, 3, 4, 450), (17, 3, 3, 3), padding=1),
    "rows of several tasks, with steps": Case((1, 3, 4, 421), (16, 3, 3, 2), stride=2),
    "no image": Case((0, 16, 8, 8), (24, 16, 3, 3), padding=1),
}

VIEWS: dict[str, tuple[Views, Views]] = {
    "channels last": (
        lambda x: x.transpose(0, 2, 3, 1),
        lambda x: x.permute(0, 3, 1, 2),
    ),
    "stepped": (lambda x: np.repeat(x, 2, -1), lambda x: x[..., ::2]),
    "flipped": (lambda x: x[:, ::-1, ::-1], lambda x: x.flip((1, 2))),
    "cropped": (lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1))), lambda x: x[..., 1:-2, :-1]),
}
"""Arrays that hold an image in other ways, and the views that show it again."""


def expected(case: Case, x: Any, w: Any, y: Any) -> list[Any]:
    """The result and both gradients in float64."""
    attrs = case.attrs
    return [
        OPS["convolution"].reference(np, x, w, **attrs),
        OPS["convolution_transpose"].reference(np, y, w, size=x.shape[2:], **attrs),
        OPS["convolution_kernel"].reference(np, x, y, kernel=w.shape[2:], **attrs),
    ]


def arrays_of(case: Case) -> tuple[Any, Any, Any]:
    """The input, the weight and a cotangent, in float64."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s) for s in (case.x, case.w))
    out = OPS["convolution"].reference(np, x, w, **case.attrs)
    return x, w, rng.standard_normal(out.shape)


def programs(
    case: Case, sizes: tuple[Any, ...], shapes: list[Any], dtype: str, view: Views = lambda x: x
) -> Any:
    """A program of the result and both gradients; ``view`` shows the input and the cotangent in
    what is given."""
    x = sf.placeholder(sizes, dtype, name="x")
    w = sf.placeholder(case.w, dtype, name="w")
    y = sf.placeholder(shapes[2], dtype, name="y")
    seen = view(x)
    out = CONVOLUTIONS[case.rank](seen, w, **case.options)
    return sf.compile([x, w, y], (out, *sf.grad((out * view(y)).sum(), [seen, w])))


def check(found: Any, wanted: list[Any], dtype: str) -> None:
    for one, other in zip(found, wanted, strict=True):
        scale = max(1.0, np.abs(other).max(initial=0))
        tolerance = 1e-12 if dtype == "float64" else 3e-6
        np.testing.assert_allclose(one.numpy() / scale, other / scale, 0, tolerance)


@pytest.mark.parametrize("opened", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, opened: bool) -> None:
    """Of float32 where sizes are known, of float64 where they are not."""
    case, dtype = CASES[name], "float64" if opened else "float32"
    arrays = arrays_of(case)
    sizes = (None, case.x[1], *(None,) * case.rank) if opened else case.x
    y = (None, case.w[0], *(None,) * case.rank) if opened else arrays[2].shape
    program = programs(case, sizes, [case.x, case.w, y], dtype)
    given = [np.asarray(a, dtype) for a in arrays]
    found = program(*given)
    check(found, expected(case, *(a.astype(np.float64) for a in given)), dtype)


@pytest.mark.parametrize("name", ["3 x 3", "small images", "stride"])
@pytest.mark.parametrize("view", VIEWS)
def test_views(name: str, view: str) -> None:
    """Operands read where they lie in larger or turned arrays."""
    case = CASES[name]
    store, show = VIEWS[view]
    x, w, y = (a.astype(np.float32) for a in arrays_of(case))
    given = (np.ascontiguousarray(store(x)), w, np.ascontiguousarray(store(y)))
    program = programs(case, given[0].shape, [g.shape for g in given], "float32", show)
    check(program(*given), expected(case, *(a.astype(np.float64) for a in (x, w, y))), "float32")


IN_PARTS = ["few rows, positions in parts", "few rows of groups, in parts"]


@pytest.mark.parametrize("name", ["3 x 3", "small images", "stride", "groups", "deep", *IN_PARTS])
def test_threads_change_no_bit(name: str) -> None:
    case = CASES[name]
    arrays = [a.astype(np.float32) for a in arrays_of(case)]
    program = programs(case, case.x, [a.shape for a in arrays], "float32")
    threads = sf.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            sf.set_num_threads(count)
            found.append([r.numpy() for r in program(*arrays)])
    finally:
        sf.set_num_threads(threads)
    for other in found[1:]:
        for one, again in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, again)


LARGE = {
    "few channels": CASES["few rows, positions in parts"],
    "vectors along rows": Case((8, 32, 16, 16), (32, 32, 3, 3), padding=1),
    "small images": Case((32, 64, 4, 4), (64, 64, 3, 3), padding=1),
    "stride": Case((16, 32, 17, 17), (32, 32, 3, 3), stride=2),
    "one by one": Case((32, 64, 8, 8), (128, 64, 1, 1)),
    "groups": Case((16, 32, 16, 16), (32, 16, 3, 3), padding=1, groups=2),
    "depthwise": Case((16, 64, 16, 16), (64, 1, 3, 3), padding=1, groups=64),
}
"""Convolutions that are work enough for two threads, each way."""


@pytest.mark.parametrize("opened", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", LARGE)
def test_each_way_has_threads(name: str, opened: bool) -> None:
    case = LARGE[name]
    x, w, y = (a.astype(np.float32) for a in arrays_of(case))
    sizes = [(None, *a.shape[1:]) if opened else a.shape for a in (x, y)]
    sx, sy = (sf.placeholder(s, name=n) for s, n in zip(sizes, "xy", strict=True))
    sw = sf.placeholder(w.shape, name="w")
    out = CONVOLUTIONS[case.rank](sx, sw, **case.options)
    dx, dw = sf.grad((out * sy).sum(), [sx, sw])
    threads = sf.get_num_threads()
    try:
        sf.set_num_threads(2)
        for given, result in (({sx: x, sw: w}, out), ({sw: w, sy: y}, dx), ({sx: x, sy: y}, dw)):
            program = sf.compile([*given], result)
            before = pool_jobs()
            program(*given.values())
            assert pool_jobs() > before
    finally:
        sf.set_num_threads(threads)


def test_what_follows_is_done_where_the_result_is_made() -> None:
    """A bias, a scale, a sum with another image and an activation; and an update of the weight."""
    case = CASES["small images"]
    x, w, y = (a.astype(np.float32) for a in arrays_of(case))
    weight = sf.tensor(w, requires_grad=True)
    scale = np.linspace(0.5, 1.5, len(w), dtype=np.float32)[:, None, None]
    sx, sy = (sf.placeholder(a.shape, name=n) for a, n in ((x, "x"), (y, "y")))
    out = (F.conv2d(sx, weight, padding=1) * sf.tensor(scale) + sy).relu()
    step = sf.compile([sx, sy], out, updates=sf.optim.SGD([weight], lr=0.1).minimize(out.sum()))
    found = step(x, y).numpy()
    plain = OPS["convolution"].reference(np, x.astype(float), w.astype(float), **case.attrs)
    wanted = np.maximum(plain * scale + y, 0)
    np.testing.assert_allclose(found, wanted, 0, 3e-6 * np.abs(wanted).max())
    grad = OPS["convolution_kernel"].reference(
        np, x.astype(float), (wanted > 0) * scale.astype(float), kernel=(3, 3), **case.attrs
    )
    np.testing.assert_allclose(
        weight.detach().numpy(), w - 0.1 * grad, 0, 3e-6 * np.abs(grad).max()
    )


@pytest.mark.parametrize(("rows", "channels", "size"), [(1, 6, 14), (1, 1, 32), (1, 16, 9)])
def test_one_image_with_a_bias_behind_it(rows: int, channels: int, size: int) -> None:
    x, w, b = sf.randn(rows, channels, size, size), sf.randn(16, channels, 5, 5), sf.randn(16)
    w.requires_grad_()
    many = F.conv2d(sf.cat([x] * 4), w, b)[:1]
    np.testing.assert_allclose(
        F.conv2d(x, w, b).detach().numpy(), many.detach().numpy(), rtol=1e-4, atol=1e-4
    )
    relu = sf.compile([], F.conv2d(x, sf.symbol(w), b).relu())()
    np.testing.assert_allclose(relu.numpy(), many.relu().detach().numpy(), rtol=1e-4, atol=1e-4)


def test_the_kernel_of_images_and_cotangents_that_are_the_same_along_rows() -> None:
    """Neither of which is loaded as a vector: lanes behind the end of a row add nothing."""
    x, y = sf.placeholder((2, 2, 4, 1)), sf.placeholder((2, 3, 3, 1))
    run = OPS["correlate_kernel"]
    attrs = {"kernel": (2, 3), "stride": (1, 1), "dilation": (1, 1), "groups": 1}
    program = sf.compile([x, y], run(x.expand(2, 2, 4, 5), y.expand(2, 3, 3, 3), **attrs))
    draw = np.random.default_rng(0)
    a, b = (draw.uniform(1, 2, t.shape).astype(np.float32) for t in (x, y))
    wanted = run.reference(
        np, *(np.broadcast_to(t, (*t.shape[:3], n)) for t, n in ((a, 5), (b, 3))), **attrs
    )
    np.testing.assert_allclose(program(a, b).numpy(), wanted, 1e-5)


@pytest.mark.parametrize(
    ("rows", "is_shared"), [(1, False), (2, True), (7, True), (8, True), (9, False)]
)
def test_rows_that_windows_share_are_loaded_once(rows: int, is_shared: bool) -> None:
    """Of one channel each: the windows of rows of positions lie over each other, but for one row."""
    x, w = sf.placeholder((2, 3, 16, 16), name="x"), sf.placeholder((3, 1, rows, 3), name="w")
    step = sf.compile([x, w], F.conv2d(x, w, groups=3))
    kernels = step._executable.program.kernels
    inner = [s for kernel in kernels for s in innermost_loops(kernel.body)]
    per_product = [
        sum(isinstance(s.expr, Load) and s.reg.lanes > 1 for s in loop.body if isinstance(s, Let))
        / n
        for loop in inner
        if (n := sum(isinstance(s, Set) for s in loop.body))
    ]
    assert (min(per_product) < 1) == is_shared and max(per_product) <= 1
    rng = np.random.default_rng(rows)
    given = rng.standard_normal((2, 3, 16, 16)), rng.standard_normal((3, 1, rows, 3))
    found = step(*(a.astype(np.float32) for a in given)).numpy()
    exact = F.conv2d(*map(sf.tensor, given), groups=3).numpy()
    np.testing.assert_allclose(found, exact, 1e-4, 1e-4)
