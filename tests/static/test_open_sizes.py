"""Programs whose sizes are open, as under ``jit``, give what they give eagerly, gradients too."""

import math

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ShapeError
from staticflow.nn import functional as F


def _numbers(*shape):
    return sf.tensor(np.random.default_rng(7).standard_normal(shape, np.float32))


def _entropy(**options):
    chances = F.softmax(_numbers(4, 5), -1)
    return lambda x, p: F.cross_entropy(x, p, **options), (_numbers(4, 5) + 1, chances)


def _of(fn, *shape):
    return fn, (_numbers(*shape).abs() + 0.5,)


PROGRAMS = {
    "attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        (_numbers(4, 6), _numbers(4, 6)),
    ),
    "class probabilities": _entropy(),
    "smoothed probabilities": _entropy(label_smoothing=0.1),
    "chunks": _of(lambda x: sf.stack([c.sum() * i for i, c in enumerate(x.chunk(3))]), 7, 2),
    "equal chunks": _of(lambda x: sf.stack(x.chunk(3), 1).sin(), 6, 2),
    "chunks of a multiple": _of(lambda x: sf.cat([x, x, x]).chunk(3)[1], 4),
    "split by a part of the size": _of(lambda x: sf.cat([x, x]).split(x.shape[0])[1] * 2, 4),
    "the whole split": _of(lambda x: x.split(x.shape[0])[0] * 2, 4),
    "a row expanded by a number": _of(lambda x: x[:1].expand(3, -1) * 2, 4, 2),
    "a row expanded by the size": _of(lambda x: x[:1].expand(x.shape[0], -1) * x, 4, 2),
    "beside the first column": _of(lambda x: x / x[:, :1], 3, 4),
    "beside the last row": _of(lambda x: (x - x[-1:]) * x[:1], 3, 4),
    "squeezed parts": _of(
        lambda x: (
            x[:, :1].squeeze(1) + x[:, 1:2].squeeze(-1) * x[:, -1:].squeeze() + x[-1:].squeeze(0)[0]
        ),
        3,
        4,
    ),
    "slices of a slice": _of(
        lambda x: x.narrow(1, 1, 1).squeeze(1) - x[1:][:, 2:3].squeeze((0, 1)).sum(), 3, 4
    ),
    "where beside a row": _of(lambda x: sf.where(x > x[:1], x[:1], x * 2), 3, 4),
    "samples at a grid": (
        lambda x, g: F.grid_sample(x, g * 0.3, align_corners=False),
        (_numbers(1, 2, 4, 3), _numbers(1, 2, 2, 2)),
    ),
    "several letters": (
        lambda a, b: sf.einsum("iabj,jib->ab", a, b),
        (_numbers(2, 3, 4, 5), _numbers(5, 2, 4)),
    ),
    "three operands": (
        lambda a, b, c: sf.einsum("jkai,kija,ik->ji", a, b, c),
        (_numbers(7, 2, 4, 7), _numbers(2, 7, 7, 4), _numbers(7, 2)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_open_sizes(name):
    program, given = PROGRAMS[name]
    found = []
    for run in (program, sf.jit(program)):
        leaves = [x.clone().requires_grad_() for x in given]
        y = run(*leaves)
        grads = sf.autograd.grad((y * y).sum(), leaves)
        found.append([v.detach().numpy() for v in (y, *grads)])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, 1e-4, 1e-5)


def test_attention_whose_heads_share_keys():
    def program(q, k):
        return F.scaled_dot_product_attention(q, k, k, enable_gqa=True)

    q, k = _numbers(6, 3, 4), _numbers(3, 5, 4)
    eager = program(q, k)
    alike = F.scaled_dot_product_attention(q, *[k.repeat_interleave(2, 0)] * 2)
    assert eager.tolist() == alike.tolist()
    np.testing.assert_allclose(sf.jit(program)(q, k).numpy(), eager.numpy(), 1e-4, 1e-5)
    with pytest.raises(sf.ShapeError, match=r"3 heads.*4|4 heads.*3"):
        program(_numbers(4, 3, 4), k)


NUMBERS = {
    "half": lambda x: x * (x.shape[1] / 2),
    "one by it": lambda x: x * (1 / x.shape[0]),
    "root": lambda x: x * x.shape[1] ** -0.5,
    "NumPy's root": lambda x: x / np.sqrt(x.shape[1]),
    "NumPy's logarithm": lambda x: x * np.log(x.shape[1]),
    "sums with floats": lambda x: x + 0.5 * x.shape[0] - (x.shape[0] - 0.5) * (0.5 - x.shape[1]),
    "quotient of two": lambda x: x * (x.shape[0] / x.shape[1]),
    "powers": lambda x: x * x.shape[0] ** 2 * 2.0 ** x.shape[1],
    "of no dims": lambda x: x.sum() * (x.shape[0] / 7),
    "of 16 bits": lambda x: x.half() * (1 / x.shape[0]),
    "beside integers": lambda x: x.long() * (1 / x.shape[0]),
    "of 64 bits": lambda x: x.sum().double() * (x.shape[1] / 3),
    "the larger": lambda x: x * np.maximum(x.shape[0], 2) * np.float32(0.5),
    "NumPy's numbers": lambda x: x * (np.float32(0.5) * x.shape[0]) * (x.shape[0] * np.int64(3)),
    "product of the shape": lambda x: x * np.prod(x.shape) + math.prod(x.shape),
    "array of the shape": lambda x: x * (np.array(x.shape) * 2)[1],
    "an unbiased factor": lambda x: x * (1 - 1 / x.shape[0]) ** 2,
    "divmod, abs": lambda x: x * divmod(x.shape[0], 2)[1] * abs(x.shape[0] - 9),
    "exponent": lambda x: x ** (1 / x.shape[1]),
    "compared": lambda x: sf.where(x > x.shape[0] / 5, x, 0),
    "alpha": lambda x: x.add(x, alpha=1 / x.shape[0]),
    "weight": lambda x: sf.lerp(x, x * 2, 1 / x.shape[0]),
    "clamped": lambda x: x.clamp(max=1 / x.shape[0]),
    "step of a range": lambda x: sf.arange(0, 1, 1 / x.shape[0]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_follow_from_sizes_count_as_python_floats(name):
    program = NUMBERS[name]
    x = sf.tensor(np.arange(1, 13, dtype=np.float32).reshape(3, 4))
    eager, compiled = program(x), sf.jit(program)(x)
    assert compiled.dtype is eager.dtype
    np.testing.assert_allclose(compiled.numpy(), eager.numpy(), 1e-6)


def test_a_number_of_sizes_is_a_value_of_which_every_name_has_its_own():
    def program(x):
        a = b = x.shape[0] / 2
        a += 1
        return x * a + b

    assert sf.jit(program)(sf.ones(4)).tolist() == program(sf.ones(4)).tolist()


@pytest.mark.parametrize(
    ("program", "shape", "match"),
    [
        (lambda x: x.chunk(3)[0], (4,), "arg0_0 is 4"),
        (lambda x: sf.cat([x, x]).split(x.shape[0])[0], (0,), "arg0_0 is 0"),
        (lambda x: x / x[:, :1], (2, 0), "arg0_1 is 0"),
        (lambda x: x.split(2)[0], (4,), r"how many parts of 2.*use chunk"),
        (lambda x: x.unbind(0)[0], (4,), r"how many slices.*x\.reshape"),
        (lambda x: x * math.sqrt(x.shape[0]), (4,), r"no Python float.*n \*\* 0\.5"),
        (
            lambda x: F.leaky_relu(x, 1 / x.shape[0]),
            (4,),
            "leaky_relu: negative_slope is.*sf.where",
        ),
        (lambda x: F.elu(x, x.shape[0]), (4,), r"elu: .*arg0_0.*test_open_sizes"),
        (lambda x: sf.linalg.solve(x, x[0]), (2, 2, 2), r"a vector for each.*B\.unsqueeze\(-1\)"),
    ],
)
def test_what_only_the_run_can_tell_is_refused_with_what_to_write(program, shape, match):
    with pytest.raises(sf.StaticflowError, match=match):
        sf.jit(program)(sf.ones(*shape))


def _numbers_of_sizes(x):
    n, half = x.shape[0], x.shape[0] / 2
    written = sf.full_like(x, n)
    written[0] = half
    return {
        "full": (sf.full((2, 2), n), sf.full((2,), half), sf.full((n,), half, dtype=sf.int32)),
        "new": (x.new_full((2, 3), n), x.new_full((2,), half), written, x.clone().fill_(n)),
        "masks": (x.masked_fill(x > 0.5, n), x.masked_fill(x > 0.5, half)),
        "pad": (F.pad(x, (1, 1), value=n), F.pad(x, (1, 1), value=half)),
        "tensor": (sf.tensor(n), sf.tensor(n, dtype=sf.float64)),
        "linspace": (
            sf.linspace(0, n, 5), sf.linspace(half, 1, n), sf.linspace(-1, 1, n - 3),
            sf.linspace(0.5, half, 4, dtype=sf.int64), sf.logspace(0, half, 3),
        ),
        "others": (x.clamp(0.1, half), F.layer_norm(x, (4,), eps=1 / n), x.lerp(-x, 1 / n)),
    }  # fmt: skip


@pytest.mark.parametrize("rows", [4, 7])
def test_sizes_are_numbers_for_functions_that_take_numbers(rows):
    x = sf.linspace(0, 1, rows * 4).reshape(rows, 4)
    program = sf.jit(_numbers_of_sizes)
    for name, wanted in _numbers_of_sizes(x).items():
        for place, (a, b) in enumerate(zip(program(x)[name], wanted, strict=True)):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), (name, place)
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-6, 1e-6, err_msg=f"{name} {place}")


@pytest.mark.parametrize("scale", [sf.ones(3), sf.ones(3, requires_grad=True)])
def test_derivatives_by_eager_tensors_of_functions_that_close_over_a_symbol(scale):
    x, given = sf.placeholder((3,), name="x"), sf.tensor([1.0, 2.0, 3.0])

    def f(w):
        return w * w * x

    ones = sf.ones(3)
    derivatives = [
        sf.func.grad(lambda w: f(w).sum())(scale),
        sf.func.vjp(f, scale)[1](ones)[0],
        sf.func.jvp(f, (scale,), (ones,))[1],
        sf.func.jacrev(f)(scale).sum(0),
        sf.autograd.functional.jacobian(f, scale).sum(0),
        sf.autograd.functional.vjp(f, scale, ones)[1],
    ]
    for found in sf.compile([x], derivatives)(given):
        assert found.tolist() == [2, 4, 6]


def test_cast_takes_the_dtype_by_position():
    assert sf.cast(sf.tensor([1.5]), sf.int64).dtype is sf.int64
    assert sf.cast(sf.tensor([1.5]), dtype="float64").dtype is sf.float64


def test_rules_compare_sizes_that_the_user_may_not() -> None:
    """What passes and derivatives ask of open sizes is asked of expressions."""
    x = sf.placeholder((None,) * 4, name="x")
    w = sf.placeholder((None,) * 4, name="w")
    y = sf.nn.functional.conv2d(x, w, padding=1)
    program = sf.compile([x, w], [y, *sf.grad((y * y).sum(), [x, w])])
    a = sf.rand(2, 3, 5, 6).requires_grad_()
    for kernel in (1, 3):
        b = sf.rand(4, 3, kernel, kernel).requires_grad_()
        wanted = sf.nn.functional.conv2d(a, b, padding=1)
        slopes = sf.autograd.grad((wanted * wanted).sum(), [a, b])
        for found, want in zip(program(a, b), [wanted, *slopes], strict=True):
            np.testing.assert_allclose(found.numpy(), want.detach().numpy(), 2e-4, 2e-4)


def test_a_part_of_one_or_none_is_squeezed_as_it_is_stretched():
    """``x[:, 1:2].squeeze(1)`` kept its dim, and ``x[:, 0] + x[:, 1:2].squeeze(1)`` was a matrix."""
    x = sf.placeholder((None, None), name="x")
    program = sf.compile([x], x[:, 1:2].squeeze(1))
    assert program(sf.ones(3, 2)).shape == (3,)
    with pytest.raises(ShapeError, match=r"squeeze: the size of dim 1 of .* must be equal, but"):
        program(sf.ones(3, 1))


@pytest.mark.parametrize(
    "bounds", ["-1:", "-2:-1", "1:3:2", "3:1:-2", "-1:-4:-3", "-3::3", "5:9:7"]
)
def test_a_slice_of_one_or_none_is_squeezed_and_stretched(bounds: str):
    """Whatever its bounds count from, and however long its steps are."""
    key = slice(*(int(b) if b else None for b in bounds.split(":")))
    x = sf.placeholder((None, 3), name="x")
    parts = sf.compile([x], [x[key], x[key].flip(0)])
    meeting = sf.compile([x], [x[key].squeeze(0) + x, x[key] * x])
    for rows in range(9):
        values = np.random.default_rng(rows).random((rows, 3), np.float32)
        for part in parts(values):
            np.testing.assert_array_equal(part.numpy(), values[key])
        if len(values[key]) == 1:
            total, product = meeting(values)
            np.testing.assert_array_equal(total.numpy(), values[key][0] + values)
            np.testing.assert_array_equal(product.numpy(), values[key] * values)
