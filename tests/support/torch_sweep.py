"""Operations of PyTorch on the samples that its own tests draw, run by the rows of our table.

Each sample is traced as behind ``torch.compile``, by AOT autograd into core ATen, and the graphs of the
value and of the derivative run by our rows.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch.nn.attention import SDPBackend, sdpa_kernel

from staticflow.eager.tensor import Tensor
from staticflow.torch.dynamo import _Graph
from staticflow.torch.exchange import tensor_from_torch, tensor_to_torch
from staticflow.torch.steps import read_steps

# PyTorch's tests import it for the base of their classes
if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
    stub = types.ModuleType("expecttest")
    vars(stub)["TestCase"] = unittest.TestCase
    sys.modules["expecttest"] = stub

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

__all__ = ["OPS", "Outcome", "check_sample", "compare", "is_of", "is_plain", "samples_of", "sweep"]

flatten, unflatten = torch.utils._pytree.tree_flatten, torch.utils._pytree.tree_unflatten
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)

DRAWN = frozenset(
    {
        "argsort", "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
        "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
        "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
        "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
        "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
        "nn.functional.multi_head_attention_forward", "nn.functional.scaled_dot_product_attention",
        "empty", "empty_like", "new_empty", "new_empty_strided", "empty_permuted", "empty_strided",
        "svd_lowrank", "pca_lowrank",
    }
)  # fmt: skip
"""Operations whose values are drawn, are whatever is in memory, or, as of ``argsort``, positions among
equals: of these shapes and dtypes count."""

TIES = frozenset({"kthvalue", "median", "mode", "nanmedian", "topk", "msort", "sort"})
"""Operations that choose any of equal elements: of a result beside the values the shape counts."""

UNSIGNED = frozenset({"linalg.eigh", "linalg.svd", "svd", "linalg.qr", "qr"})
"""Factors whose columns PyTorch and LAPACK give in any sign."""

OPS = {f"{op.name}{'.' if op.variant_test_name else ''}{op.variant_test_name}": op for op in op_db}
"""PyTorch's descriptions of its operations, by name."""


def _has_nan(sample: Any) -> bool:
    return bool(sample.input.isnan().any())


def _is_sparse_or_scaled(sample: Any) -> bool:
    return bool(sample.kwargs.get("sparse") or sample.kwargs.get("scale_grad_by_freq"))


DIFFERENT_GRADIENT: dict[str, Callable[[Any], bool]] = {
    # where an element is NaN: by that, PyTorch's trace has the product of the others, eager mode NaN
    "masked.prod": _has_nan,
    # PyTorch's trace of a sparse gradient fails; one that is scaled goes by the frequency of other rows
    "nn.functional.embedding_bag": _is_sparse_or_scaled,
}
"""Operations whose gradient cannot be PyTorch's, and of which samples: of these values count."""

UNTRACED = ("DynamicOutputShape", "DataDependent", "data-dependent")
"""What PyTorch says of that which it does not trace itself."""


@dataclass
class Outcome:
    """What a sample of an operation came to: the overloads that ran, the overloads without a row, and
    what was not PyTorch's. All are empty if PyTorch itself does not trace it."""

    name: str
    used: set[str] = field(default_factory=set)
    refused: tuple[str, ...] = ()
    fault: str = ""


def samples_of(name: str, dtype: Any, count: int) -> Iterator[tuple[Any, list[Any], Any, bool]]:
    """Up to ``count`` samples: a function of tensors, these tensors, the operation's name, and whether
    its gradient is to be PyTorch's. Every second is on memory that is not contiguous, and one has a
    dim of size 0 where PyTorch takes it."""
    op = OPS[name]
    gradient = dtype.is_floating_point and op.supports_autograd
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    step = max(1, len(samples) // count)
    for i, sample in enumerate(itertools.islice(samples, 0, step * count, step)):
        leaves, tree = flatten((sample.input, sample.args, sample.kwargs))
        places = [k for k, v in enumerate(leaves) if is_plain(v)]
        tensors = [leaves[k].detach() for k in places]
        if any(isinstance(v, torch.Tensor) and not is_plain(v) for v in leaves):
            continue

        def call(*given: Any, leaves: Any = leaves, tree: Any = tree, places: Any = places) -> Any:
            now = list(leaves)
            for k, v in zip(places, given, strict=True):
                now[k] = v
            first, args, kwargs = unflatten(now, tree)
            return op.op(first, *args, **kwargs)

        differs = DIFFERENT_GRADIENT.get(name, lambda sample: False)
        own = [_strided(t) if i % 2 else t for t in tensors]
        yield call, own, name, gradient and not differs(sample)


def is_plain(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not value.is_complex()
        and not value.is_quantized
    )


def _strided(t: Any) -> Any:
    """The values of ``t`` at every second place of a memory, or turned around."""
    if t.ndim == 0:
        return t
    wide = t.new_zeros((*t.shape, 2))
    wide[..., 0] = t
    return wide[..., 0]


class _Compiler:
    """A compiler of AOT autograd that runs graphs by rows of ours and notes which: at once, or as
    programs."""

    def __init__(self, outcome: Outcome, is_program: bool) -> None:
        self.outcome, self.is_program = outcome, is_program

    def __call__(self, graph: Any, inputs: Sequence[Any]) -> Any:
        self.outcome.used |= {str(n.target) for n in graph.graph.nodes if n.op == "call_function"}
        if self.is_program:
            return make_boxed_func(_Graph(torch, graph, {}))
        steps = read_steps(torch, graph, {}, "sweep")
        wanted = next(n.args[0] for n in graph.graph.nodes if n.op == "output")

        def run(*args: Any) -> list[Any]:
            own = [
                tensor_from_torch(a.detach()) if isinstance(a, torch.Tensor) else a for a in args
            ]
            out = [_theirs(v) for v in steps.run(*own)]
            for o, n in zip(out, wanted, strict=True):
                meta = n.meta.get("val") if hasattr(n, "meta") else None
                if isinstance(o, torch.Tensor) and isinstance(meta, torch.Tensor):
                    said, got = (meta.dtype, list(meta.shape)), (o.dtype, list(o.shape))
                    if got != said and all(isinstance(s, int) for s in meta.shape):
                        raise AssertionError(f"a result is {got}, and PyTorch's {said}")
            return out

        return make_boxed_func(run)


def _theirs(value: Any) -> Any:
    return tensor_to_torch(torch, value) if isinstance(value, Tensor) else value


def check_sample(
    call: Callable[..., Any],
    tensors: Sequence[Any],
    name: str,
    gradient: bool,
    is_program: bool = False,
) -> Outcome:
    """Run a sample by PyTorch and by our rows and compare."""
    outcome = Outcome(name)
    try:
        torch.manual_seed(1)
        given = _leaves(tensors, gradient)
        wanted = flatten(call(*given))[0]
        pulled = _pull(wanted, given) if gradient else []
    except Exception:  # PyTorch does not take it itself
        return outcome
    if any(isinstance(w, torch.Tensor) and not is_plain(w) for w in wanted):
        return outcome
    compiler = _Compiler(outcome, is_program)
    try:
        torch.manual_seed(1)
        given = _leaves(tensors, gradient)
        with sdpa_kernel(SDPBackend.MATH):
            run = aot_function(
                call, fw_compiler=compiler, bw_compiler=compiler,
                decompositions=core_aten_decompositions(),
            )  # fmt: skip
            actual = flatten(run(*given))[0]
            found = _pull(actual, given) if gradient else []
        drawn, ties, unsigned = (is_of(name, names) for names in (DRAWN, TIES, UNSIGNED))
        if unsigned:
            actual, wanted = ([v.abs() for v in vs] for vs in (actual, wanted))
        compare(actual[:1] if ties else actual, wanted[:1] if ties else wanted, drawn)
        if not (drawn or ties or unsigned):
            compare(found, pulled, False)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if "have no meaning here" in text:
            outcome.refused = tuple(re.findall(r"\n  (\S+), ", text))
        elif not any(word in text for word in UNTRACED):
            outcome.fault = text
    return outcome


def is_of(name: str, names: Any) -> bool:
    """Whether an operation, or that of which it is a variant, is among ``names``."""
    return name in names or name.rpartition(".")[0] in names


def _leaves(tensors: Sequence[Any], gradient: bool) -> list[Any]:
    return [
        t.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        if gradient and t.is_floating_point()
        else t.detach().clone()
        if t.is_contiguous()
        else t.detach()
        for t in tensors
    ]


def _pull(outputs: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Gradients of a sum that each element of each output moves in its own way."""
    roots = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
    leaves = [g for g in given if g.requires_grad]
    if not roots or not leaves:
        return []
    weights = [
        torch.linspace(0.5, 1.5, r.numel(), dtype=torch.float64).reshape(r.shape).to(r.dtype)
        for r in roots
    ]
    return list(torch.autograd.grad(roots, leaves, weights, allow_unused=True))


def compare(actual: Sequence[Any], wanted: Sequence[Any], is_drawn: bool) -> None:
    """Raise `AssertionError` unless both are the same tensors and numbers, up to rounding."""
    assert len(actual) == len(wanted), f"{len(actual)} results, not {len(wanted)}"
    for a, w in zip(actual, wanted, strict=True):
        if isinstance(w, torch.Tensor):
            assert isinstance(a, torch.Tensor), f"{a!r} for a tensor"
            a, w = a.detach(), w.detach()
            assert (a.dtype, a.shape) == (w.dtype, w.shape), (
                f"{a.dtype}{list(a.shape)}, not {w.dtype}{list(w.shape)}"
            )
            if not is_drawn:
                tight = w.dtype is torch.float64
                wide = w.double()
                largest = wide[wide.isfinite()].abs().max().item() if wide.isfinite().any() else 1.0
                scale = max(1.0, float(largest))
                torch.testing.assert_close(
                    a, w, rtol=1e-7 if tight else 1e-4, atol=(1e-9 if tight else 1e-4) * scale,
                    equal_nan=True,
                )  # fmt: skip
        else:
            assert is_drawn or a == w or (a != a and w != w), f"{a!r}, not {w!r}"


def sweep(name: str, dtype: Any, count: int, is_program: bool = False) -> list[Outcome]:
    """The outcomes of the samples of an operation, with gradients where PyTorch has them; the rows run
    at once, or as programs."""
    op = OPS[name]
    if dtype not in op.dtypes:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [check_sample(*s, is_program) for s in samples_of(name, dtype, count)]
