"""A call of every public function of ops, and of every method, in which each argument is then
replaced by what it cannot be."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import staticflow as sf
from staticflow.eager.legacy import TensorKind
from staticflow.graph.op import Op
from staticflow.ops.declaring.by_shape import BY_SHAPE
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.tensors.elementwise_methods import STORED_BY
from staticflow.ops.tensors.methods import Methods

__all__ = ["CALLS", "KINDS", "SYMBOLIC", "Call"]

F = sf.nn.functional
Make = Callable[[], Any]


def _given(value: Any) -> Make:
    return lambda: value


def _filled(*shape: int) -> Make:
    values = np.random.default_rng(0).uniform(0.1, 0.9, shape).astype(np.float32)
    return lambda: sf.tensor(values)


def _matrix() -> Any:  # symmetric, positive definite, from 0 to 1
    return sf.tensor([[0.5, 0.1, 0.2], [0.1, 0.6, 0.1], [0.2, 0.1, 0.7]])


def _indices() -> Any:
    return sf.tensor([[0, 2, 1], [1, 1, 0], [2, 0, 2]])


def _mask() -> Any:
    return sf.tensor([[True, False, True]] * 3)


def _two() -> Any:
    return [_matrix(), _matrix()]


VECTOR, LABELS = _filled(3), _given(sf.tensor([0, 2, 1]))
CUBE, ROWS, IMAGES, SOLIDS = (
    _filled(3, 3, 3), _filled(2, 4, 6), _filled(2, 4, 6, 6), _filled(2, 4, 6, 6, 6),
)  # fmt: skip

_SHARED: dict[str, Make] = {
    "A B L a anchor b condition data elements end exponent ext_tensor input input1 input2 key logits "
    "mat mat1 mat2 mean negative obj operands other positive query self source src std target tensor "
    "tensor1 tensor2 tensors test_elements theta value2 values var weight x x1 x2 y": _matrix,
    "bias boundaries vec vec1 vec2": VECTOR,
    "index indices": _indices,
    "dim dim0 dimension low offset start start_dim storage_offset": _given(0),
    "decimals destination dim1 end_dim groups k num_groups shifts step": _given(1),
    "chunks dim2 downscale_factor kernel_size length n num_samples ord output_size p repeats r "
    "split_size split_size_or_sections upscale_factor window_length": _given(2),
    "bins col high indices_or_sections row steps": _given(3),
    "s fill_value lambd max maxnorm min q scale threshold value": _given(0.5),
    "from_ to type type1 type2": _given(sf.float32),
    "shape size sizes": _given((3, 3)),
    "dims": _given((0, 1)),
    "dtypes": _given([sf.int8, sf.float16]),
    "equation": _given("ij->ji"),
    "lower": _given(0.1),
    "mask": _mask,
    "mode": _given(True),
    "ndarray": lambda: np.ones(3),
    "normalized_shape": _given((3,)),
    "num_classes": _given(-1),
    "pad": _given((1, 1)),
    "precision": _given("highest"),
    "reduce": _given("sum"),
    "shapes": _given(((2, 3), (1, 3))),
    "split_sizes": _given([1, 2]),
    "stride": _given((3, 1)),
}
BY_NAME = {name: make for names, make in _SHARED.items() for name in names.split()}
"""What an argument is by its name, unless it has a default or `OWN` says otherwise."""

_NORM = {"input": IMAGES, "running_mean": _filled(4), "running_var": _filled(4)}
_PARAMETERS = {"weight": _filled(4), "bias": _filled(4)}

OWN: dict[str, Mapping[str, Make]] = {
    "addbmm": {"batch1": CUBE, "batch2": CUBE},
    "addmv": {"input": VECTOR},
    "affine_grid": {"theta": _filled(2, 2, 3), "size": _given((2, 4, 3, 3))},
    "arange": {"start": _given(0), "end": _given(5)},
    "baddbmm": {"input": CUBE, "batch1": CUBE, "batch2": CUBE},
    "batch_norm": _NORM | _PARAMETERS,
    "bernoulli": {"p": _given(0.5)},
    "bernoulli_": {"p": _given(0.5)},
    "bilinear": {"input1": _filled(2, 3), "input2": _filled(2, 4), "weight": _filled(5, 3, 4),
                 "bias": _filled(5)},
    "bincount": {"input": LABELS, "weights": VECTOR},
    "bmm": {"input": CUBE, "mat2": CUBE},
    "cast": {"dtype": _given(sf.float64)},
    "channel_shuffle": {"input": IMAGES, "groups": _given(2)},
    "clamp": {"min": _given(0.1)},
    "clip": {"min": _given(0.1)},
    "cosine_embedding_loss": {"target": VECTOR},
    "cross_entropy": {"target": LABELS, "weight": VECTOR},
    "ctc_loss": {"log_probs": _filled(6, 2, 5), "targets": _given(sf.tensor([[1, 2], [2, 3]])),
                 "input_lengths": _given(sf.tensor([6, 6])), "target_lengths": _given(sf.tensor([2, 2]))},
    "cumulative_trapezoid": {"x": VECTOR},
    "combinations": {"input": VECTOR},
    "diagonal_scatter": {"src": VECTOR},
    "dot": {"input": VECTOR, "tensor": VECTOR},
    "dsplit": {"input": CUBE},
    "F.embedding": {"input": LABELS},
    "sf.embedding": {"indices": LABELS},
    "embedding_bag": {"input": _indices},
    "fake_quantize_per_channel_affine": {"scale": VECTOR, "zero_point": _given(sf.tensor([0, 1, 2])),
                                         "axis": _given(1), "quant_min": _given(0), "quant_max": _given(9)},
    "fake_quantize_per_tensor_affine": {"scale": _given(0.5), "zero_point": _given(1),
                                        "quant_min": _given(0), "quant_max": _given(9)},
    "flip": {"along": _given(0)},
    "fold": {"input": _filled(2, 4, 9), "output_size": _given((4, 4)), "stride": _given(1)},
    "ger": {"input": VECTOR},
    "glu": {"input": IMAGES},
    "grid_sample": {"input": IMAGES, "grid": _filled(2, 3, 3, 2)},
    "group_norm": {"input": IMAGES, **_PARAMETERS},
    "linear_cross_entropy": {"linear_weight": _filled(3, 3), "target": LABELS, "weight": VECTOR},
    "iinfo": {"type": _given(sf.int8)},
    "instance_norm": _NORM | _PARAMETERS,
    "interpolate": {"input": IMAGES, "size": _given((3, 3))},
    "is_nonzero": {"input": _filled(1)},
    "local_response_norm": {"input": IMAGES, "size": _given(2)},
    "solve_triangular": {"upper": _given(True)},
    "lu_solve": {"LU": _matrix, "pivots": _given(sf.tensor([1, 2, 3], dtype="int32"))},
    "lu_unpack": {"LU_data": _matrix, "LU_pivots": _given(sf.tensor([1, 2, 3], dtype="int32"))},
    "logspace": {"end": _given(2.0)}, "linspace": {"end": _given(2.0)},
    "meshgrid": {"tensors": VECTOR}, "cartesian_prod": {"tensors": VECTOR},
    "moveaxis": {"source": _given(0)}, "movedim": {"source": _given(0)},
    "multi_margin_loss": {"target": LABELS, "weight": VECTOR, "p": _given(1)},
    "multilabel_margin_loss": {"target": _indices},
    "nll_loss": {"target": LABELS, "weight": VECTOR},
    "one_hot": {"input": LABELS},
    "outer": {"input": VECTOR},
    "permute": {"order": _given((1, 0))},
    "pixel_shuffle": {"input": IMAGES}, "pixel_unshuffle": {"input": IMAGES},
    "prelu": {"weight": _filled(1)},
    "svd_lowrank": {"q": _given(2)},
    "put": {"index": LABELS, "source": VECTOR},
    "randint_like": {"high": _given(5)},
    "randint": {"low": _given(0), "high": _given(5), "size": _given((2,))},
    "random_": {"from_": _given(0), "to": _given(5)},
    "repeat": {"sizes": _given((2, 2))}, "tile": {"sizes": _given((2, 2))},
    "repeat_interleave": {"repeats": _given(2)},
    "reshape": {"shape": _given((9,)), "sizes": _given(())}, "view": {"shape": _given((9,))},
    "scaled_dot_product_attention": {"value": _matrix},
    "scatter": {"src": _matrix},
    "searchsorted": {"sorted_sequence": VECTOR},
    "select": {"index": _given(1)},
    "select_scatter": {"src": VECTOR, "index": _given(1)},
    "tensordot": {"dims": _given(1)},
    "tensorinv": {"ind": _given(1)}, "tensorsolve": {"B": VECTOR},
    "threshold": {"args": _given((0.5, 0.1))},
    "to": {"args": _given((sf.float64,))},
    "to_device": {"device": _given("cpu")},
    "trapezoid": {"x": VECTOR}, "trapz": {"x": VECTOR},
    "unflatten": {"sizes": _given((1, 3))},
    "unfold": {"input": IMAGES}, "m.unfold": {"input": _matrix, "size": _given(2)},
    "upsample": {"input": IMAGES, "size": _given((3, 3))},
    "vander": {"x": VECTOR},
    "geometric_": {"p": _given(0.5)},
    "householder_product": {"tau": VECTOR},
    "nonzero_static": {"size": _given(2)},
    "vdot": {"input": VECTOR, "other": VECTOR},
    "where": {"condition": _mask, "input": _matrix, "other": _matrix},
    **{f"index_{what}": {"index": LABELS} for what in ("add", "copy", "fill", "select")},
    "index_put": {"indices": _given((sf.tensor([0]), sf.tensor([1]))),
                  "values": _given(sf.tensor(0.5))},
    "index_reduce": {"index": LABELS, "reduce": _given("amax")},
    **{f"bitwise_{what}": {"input": _indices, "other": _indices}
       for what in ("and", "or", "xor", "not", "left_shift", "right_shift")},
    "gcd": {"input": _indices, "other": _indices}, "lcm": {"input": _indices, "other": _indices},
    **{name: {"tensors": _two} for name in (
        "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack",
        "multi_dot",
    )},
    "chain_matmul": {"matrices": lambda: tuple(_two())},
    **{name: {"args": _given(()), "sizes": _given(())} for name in (
        "celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu",
        "relu6", "selu", "silu",
    )},
}  # fmt: skip
"""Arguments of functions (``room.name``, or ``name`` of all rooms) that others would not do for."""

for _d, _images in ((1, ROWS), (2, IMAGES), (3, SOLIDS)):
    OWN |= {
        name: {"input": _images, "stride": _given(2)} for name in vars(F) if name.endswith(f"{_d}d")
    }
    for _name in (f"conv{_d}d", f"conv_transpose{_d}d"):
        OWN[_name] = {"input": _images, "weight": _filled(4, 4, *[3] * _d), "bias": _filled(4)}
    OWN[f"max_unpool{_d}d"] = {
        "input": lambda i=_images, d=_d: getattr(F, f"max_pool{d}d")(i(), 2),
        "indices": lambda i=_images, d=_d: getattr(F, f"max_pool{d}d")(i(), 2, return_indices=True)[
            1
        ],
    }
    OWN[f"lp_pool{_d}d"] = {"input": _images, "norm_type": _given(2)}
    OWN[f"fractional_max_pool{_d}d"] = {"input": _images, "output_size": _given(2)}

LEFT_OUT = {
    "sf": {
        # what takes functions or names, or changes settings
        "associative_scan", "compare", "compile", "cond", "constant", "draw", "enable_grad", "fori_loop", "fork_rng",
        "grad", "inference_mode", "jit", "load", "load_program", "manual_seed", "map", "no_grad", "placeholder",
        "print", "printoptions", "register_dataclass", "register_pytree_node", "register_pytree_node_class", "save", "scan", "seed", "set_default_dtype", "set_grad_enabled",
        "set_num_threads", "set_printoptions", "set_rng_state", "switch", "symbol", "variable", "vmap", "while_loop",
    },
    "F": {"check_reduction", "refuses_foreign_in"},
    "linalg": set(), "special": set(),
    "m": {
        "apply_", "backward", "cuda", "item", "map_", "pin_memory", "register_hook",
        "register_post_accumulate_grad_hook", "retain_grad",
    },
}  # fmt: skip

KINDS: dict[str, Make] = {
    "int": _given(3),
    "float": _given(2.5),
    "none": _given(None),
    "word": _given("word"),
    "list": _given([1.0]),
    "lists": _given([[0, 1], [1, 0]]),
    "array": lambda: np.ones(3),
    "module": lambda: sf.nn.Linear(3, 3),
    "tensors": lambda: [_matrix()],
    "object": object,
}


@dataclass(frozen=True, slots=True)
class Call:
    """A function, or method, as it is found in a room, with its parameters."""

    room: str
    name: str
    fn: Callable[..., Any]
    parameters: tuple[inspect.Parameter, ...]

    def __str__(self) -> str:
        return f"{self.room}.{self.name}"

    symbolic: bool = False

    def of_symbols(self) -> Call:
        """The same, called with symbols in place of tensors."""
        fn = getattr(Symbol, self.name) if self.room == "m" else self.fn
        return Call(self.room, self.name, fn, self.parameters, True)

    def arguments(self) -> dict[str, Any]:
        """What it can be called with."""
        return {k: _symbols(v) if self.symbolic else v for k, v in self._tensors().items()}

    def _tensors(self) -> dict[str, Any]:
        name = self.name[:-1] if self.room == "m" and self.name.endswith("_") else self.name
        own = {**OWN.get(name, {}), **OWN.get(f"{self.room}.{name}", {}), **OWN.get(self.name, {})}
        return {p.name: self._argument(p, own) for p in self.parameters}

    def _argument(self, p: inspect.Parameter, own: Mapping[str, Make]) -> Any:
        if p.name in own:
            return own[p.name]()
        if p.kind is p.VAR_KEYWORD:
            return {}
        return p.default if p.default is not p.empty else BY_NAME[p.name]()

    def run(self, arguments: Mapping[str, Any]) -> Any:
        """Call it."""
        args: list[Any] = []
        named = {}
        for p in self.parameters:
            value = arguments[p.name]
            if p.kind is p.VAR_POSITIONAL:
                args += value if isinstance(value, tuple) else [value]
            elif p.kind is p.KEYWORD_ONLY:
                named[p.name] = value
            elif p.kind is not p.VAR_KEYWORD:
                args.append(value)
        return self.fn(*args, **named)

    def replaceable(self) -> list[str]:
        """The arguments that may be replaced; not the tensor whose method it is."""
        names = [p.name for p in self.parameters if p.kind is not p.VAR_KEYWORD]
        return names[1:] if self.room == "m" else names

    def wrong(self, count: int) -> Iterator[tuple[str, str]]:
        """Of each argument ``count`` kinds of `KINDS`, always the same."""
        for argument in self.replaceable():
            start = zlib.crc32(f"{self}.{argument}".encode())
            kinds = list(KINDS)
            for i in range(count):
                yield argument, kinds[(start + 3 * i) % len(kinds)]


def _symbols(value: Any) -> Any:
    if isinstance(value, sf.Tensor):
        return sf.placeholder(value.shape, value.dtype)
    return type(value)(map(_symbols, value)) if isinstance(value, list | tuple) else value


def _parameters(fn: Any) -> tuple[inspect.Parameter, ...]:
    fn = inspect.unwrap(fn) if not isinstance(fn, Op) else fn
    fn = BY_SHAPE[fn].written if fn in BY_SHAPE else fn
    if not isinstance(fn, Op):
        return tuple(inspect.signature(fn).parameters.values())
    taken = list(inspect.signature(fn.reference).parameters.values())[1:]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    operands = [p for p in taken if p.kind is kind]
    named = [inspect.Parameter(n, kind) for n in fn.names[: len(operands)]]
    return (*named, *(p for p in taken if p.kind is p.KEYWORD_ONLY))


def _is_function(fn: Any) -> bool:
    return callable(fn) and not isinstance(fn, type | ModuleType | TensorKind)


_IN_SHAPE = {"squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}


def _calls() -> Iterator[Call]:
    rooms = {"sf": sf, "F": F, "linalg": sf.linalg, "special": sf.special}
    for room, module in rooms.items():
        for name in getattr(module, "__all__", dir(module)):
            fn = getattr(module, name)
            if name[0] != "_" and _is_function(fn) and name not in LEFT_OUT[room]:
                yield Call(room, name, fn, _parameters(fn))
    for name in dir(sf.Tensor):
        fn = getattr(sf.Tensor, name)
        if name[0] == "_" or not callable(fn) or name in LEFT_OUT["m"]:
            continue
        found = getattr(Methods, name, fn)
        if f"{name[:-1]}_" in _IN_SHAPE:
            found = getattr(Methods, name[:-1])
        yield Call("m", name, fn, _parameters(STORED_BY.get(found, found)))


CALLS = {str(call): call for call in _calls()}
SYMBOLIC = [c.of_symbols() for c in CALLS.values() if c.room != "m" or hasattr(Symbol, c.name)]
