"""Writes elementwise.json: what PyTorch's elementwise functions give, for test_elementwise.py. Run it
where PyTorch is.

``promotion``: the dtype of the result of two operands, by their dtypes and ranks. ``dtypes``: the
dtype that a function gives of operands of a dtype, None where it refuses them. ``values``: results
and gradients at awkward numbers."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
NUMBERS = {"True": True, "2": 2, "2.5": 2.5}

UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh",
    "deg2rad", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "frac", "i0", "isfinite",
    "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "neg", "reciprocal", "relu",
    "round", "rsqrt", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc",
)  # fmt: skip
BINARY = (
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "copysign", "div", "eq", "floor_divide",
    "fmax", "fmod", "gcd", "hypot", "lcm", "logaddexp", "logical_and", "lt", "maximum", "mul",
    "nextafter", "pow", "remainder", "sub", "xlogy",
)  # fmt: skip

POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 6.0, 20.0, 25.0, -100.0, "inf", "-inf", "nan"]
# Left out: functions whose derivative is no number in PyTorch where it is one here, or has none.
AWKWARD = {
    "abs": {}, "celu": {"alpha": 0.5}, "elu": {}, "erf": {}, "erfc": {}, "exp": {}, "floor": {},
    "frac": {}, "hardshrink": {}, "hardsigmoid": {}, "hardswish": {}, "hardtanh": {},
    "leaky_relu": {}, "logsigmoid": {}, "mish": {}, "nan_to_num": {}, "relu": {}, "relu6": {},
    "round": {}, "selu": {}, "sigmoid": {}, "sign": {}, "softplus": {}, "softshrink": {},
    "softsign": {}, "sqrt": {}, "tanh": {}, "tanhshrink": {}, "threshold": {"threshold": 0.5, "value": 7.0},
    "trunc": {},
}  # fmt: skip


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def promotion() -> dict[str, str]:
    found = {}
    for a in DTYPES:
        one = torch.ones(2, dtype=getattr(torch, a))
        for b in DTYPES:
            two = torch.ones(2, dtype=getattr(torch, b))
            found[f"{a} {b}"] = name_of(torch.result_type(one, two))
            found[f"{a} 0-d {b}"] = name_of(torch.result_type(one, two[0]))
        for text, number in NUMBERS.items():
            found[f"{a} number {text}"] = name_of(torch.result_type(one, number))
    return found


def dtypes() -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    for names, count in ((UNARY, 1), (BINARY, 2)):
        for name in names:
            found[name] = {}
            for dtype in DTYPES:
                x = torch.ones(2, dtype=getattr(torch, dtype))
                try:
                    found[name][dtype] = name_of(getattr(torch, name)(*[x] * count).dtype)
                except RuntimeError:
                    found[name][dtype] = None
    return found


def text(x: torch.Tensor) -> list[str]:
    return [repr(v) for v in x.tolist()]


def values() -> dict[str, list[list[str]]]:
    found = {}
    for name, kwargs in AWKWARD.items():
        x = torch.tensor([float(p) for p in POINTS], dtype=torch.float64, requires_grad=True)
        y = getattr(torch if hasattr(torch, name) else F, name)(x, **kwargs)
        y.backward(torch.ones_like(y))
        found[name] = [text(y.detach()), text(x.grad)]
    return found


if __name__ == "__main__":
    answers = {
        "points": POINTS,
        "kwargs": AWKWARD,
        "promotion": promotion(),
        "dtypes": dtypes(),
        "values": values(),
    }
    out = Path(__file__).with_name("elementwise.json")
    out.write_text(json.dumps(answers, indent=0) + "\n")
