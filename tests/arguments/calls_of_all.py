"""Calls of every layer and public function, with inputs that it takes eagerly.

The inputs are looked for among a few of every kind, so a new function is called for nothing.
"""

import inspect

import numpy as np
from wrong_arguments import CALLS

import staticflow as sf
from staticflow import nn, pytree
from staticflow.ops.symbols.symbol import Symbol

TRIED = 3
"""Inputs that each function is tried on."""


def _numbers(*shape):
    return np.random.default_rng(0).uniform(0.1, 0.9, shape).astype(np.float32)


def _integers(*shape):
    return np.random.default_rng(0).integers(0, 3, shape)


_X, _N = _numbers(3, 4), _integers(3, 4)
_MATRIX = _numbers(3, 3)

INPUTS = [
    (_X,), (_MATRIX,), (_numbers(2, 4, 6),), (_numbers(2, 4, 6, 6),), (_numbers(2, 4, 6, 6, 6),),
    (_numbers(4),), (_N,), (_integers(4),), (_X > 0.5,), (_X, _X), (_MATRIX, _MATRIX),
    (_numbers(4), _numbers(4)), (_numbers(2, 3, 4), _numbers(2, 4, 3)), (_X, _integers(3)),
    (_X, _N), (_X, _numbers(4)), (_numbers(2, 4, 6), _numbers(4, 4, 3)),
    (_numbers(2, 4, 6, 6), _numbers(4, 4, 3, 3)), (_N, _N), (_N, _X), (_X, _X, _X),
    (_X, _X, np.array([1, -1, 1])), (_MATRIX, _MATRIX, _MATRIX), (_X > 0.5, _X, _X), (_X, _N, _X),
    (_numbers(2, 3, 4), _numbers(2, 3, 4), _numbers(2, 3, 4)), (_X, 2), (_X, 1), (_X, 0),
    (_X, 0, 1), (_X, 0, _integers(2)), (_X, 0, _integers(2), _numbers(2, 4)), (_X, 0, _N),
    (_X, 0, _N, _X), (_X, (4, 3)), (_X, 0.5), (_X, 0.1, 0.5), (_numbers(2, 4, 6), 2),
    (_numbers(2, 4, 6, 6), 2), (_X, (1, 1)), ([_X, _X],),
    (_numbers(2, 4, 6, 6), _numbers(2, 5, 5, 2)), (_X, 1, 1), (_numbers(2, 4, 6), (4,)),
    (_X, (3, 4)), (_X, 0, 1.0), (_X, _X, 0.5),
]  # fmt: skip
"""Inputs, of which each function takes some."""

OPTIONS = [
    (), (4,), (4, 4), (2,), (4, 4, 3), ((4,),), (2, 4), (3, 4), (4, 2), (8, 4, 3), ((4, 6),),
    (1, (2, 2)), (4, 2, 8), (4, 4, 2), (0.1, 0.5), ((1, 1),), (2, 2),
]  # fmt: skip
"""Arguments of layers."""


def _layer(name, *options):
    return lambda: getattr(nn, name)(*options)


_SEQUENCE = _numbers(3, 1, 4)

LAYERS = {
    "nn.Fold": (_layer("Fold", (4, 4), 2), (_numbers(2, 4, 9),)),
    "nn.MaxUnpool2d": (_layer("MaxUnpool2d", 2), (_numbers(1, 1, 1, 2), np.array([[[[0, 6]]]]))),
    "nn.MaxUnpool3d": (
        _layer("MaxUnpool3d", 2), (_numbers(1, 1, 1, 1, 2), np.array([[[[[0, 6]]]]])),
    ),
    "nn.AdaptiveLogSoftmaxWithLoss": (
        _layer("AdaptiveLogSoftmaxWithLoss", 4, 6, [2, 4]), (_X, np.array([0, 3, 5])),
    ),
    "nn.CTCLoss": (
        _layer("CTCLoss"),
        (np.log(_numbers(5, 2, 4)), np.array([[1, 2], [3, 1]]), np.array([5, 4]), np.array([2, 1])),
    ),
    "nn.TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2), (_SEQUENCE,),
    ),
    "nn.TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2),
        (_SEQUENCE, _SEQUENCE),
    ),
}  # fmt: skip
"""Layers that take none of the inputs, with some that they take."""

NO_INPUTS = set(
    [
        "F.check_reduction",
        "F.refuses_foreign_in",
        "allclose",
        "arange",
        "are_deterministic_algorithms_enabled",
        "associative_scan",
        "bartlett_window",
        "blackman_window",
        "broadcast_shapes",
        "can_cast",
        "clear_autocast_cache",
        "draw",
        "empty",
        "enable_grad",
        "equal",
        "eye",
        "finfo",
        "fork_rng",
        "full",
        "get_autocast_dtype",
        "get_default_dtype",
        "get_float32_matmul_precision",
        "get_num_threads",
        "get_printoptions",
        "get_rng_state",
        "hamming_window",
        "hann_window",
        "iinfo",
        "initial_seed",
        "is_autocast_cache_enabled",
        "is_autocast_enabled",
        "is_complex",
        "is_floating_point",
        "is_grad_enabled",
        "is_inference",
        "is_inference_mode_enabled",
        "is_nonzero",
        "is_same_size",
        "is_signed",
        "kaiser_window",
        "linspace",
        "logspace",
        "nn.ModuleDict",
        "nn.ModuleList",
        "nn.ParameterDict",
        "nn.ParameterList",
        "no_grad",
        "numel",
        "ones",
        "printoptions",
        "promote",
        "promote_types",
        "rand",
        "randint",
        "randn",
        "randperm",
        "result_type",
        "scalar_tensor",
        "tril_indices",
        "triu_indices",
        "vmap",
        "zeros",
    ]
)
"""Functions of no tensor, of functions, or that give no tensor."""

SLOW = {f"nn.{n}" for n in dir(nn) if n.startswith(("Transformer", "LSTM", "GRU", "RNN"))}
"""Layers whose programs take seconds to compile."""

NOT_CALLED = {
    "asarray", "as_tensor", "compare", "compile", "cond", "constant", "fori_loop", "from_dlpack",
    "from_numpy", "grad", "is_tensor", "jit", "load", "load_program", "manual_seed", "map", "placeholder", "print",
    "register_dataclass", "register_pytree_node", "register_pytree_node_class", "save", "scan", "seed", "set_default_dtype", "set_grad_enabled", "set_num_threads",
    "set_float32_matmul_precision", "set_printoptions", "set_rng_state", "switch", "symbol", "tensor",
    "use_deterministic_algorithms", "variable", "while_loop",
}  # fmt: skip
"""Functions that make a program, or change a setting, or take no symbols on purpose."""


def _callables():
    found = {
        f"nn.{name}": layer
        for name, layer in vars(nn).items()
        if isinstance(layer, type) and issubclass(layer, nn.Module) and layer is not nn.Module
    }
    rooms = {"": sf, "F.": nn.functional, "linalg.": sf.linalg, "special.": sf.special}
    for prefix, room in rooms.items():
        for name in getattr(room, "__all__", dir(room)):
            fn = getattr(room, name)
            if name in NOT_CALLED or name.startswith("_") or inspect.ismodule(fn):
                continue
            if callable(fn) and not isinstance(fn, type):
                found[prefix + name] = fn
    return found


CALLABLES = _callables()

METHODS = [n for n, c in sorted(CALLS.items()) if c.room == "m" and hasattr(Symbol, c.name)]


def with_leaves(given, make):
    """The inputs with something else in the places of arrays."""
    leaves, form = pytree.flatten(given)
    return pytree.unflatten(form, [make(x) if isinstance(x, np.ndarray) else x for x in leaves])


def _runs_eagerly(fn, given):
    try:
        leaves, _ = pytree.flatten(fn(*with_leaves(given, sf.tensor)))
    except Exception:
        return False
    return any(isinstance(x, sf.Tensor) for x in leaves)


def calls_of(name):
    """Up to `TRIED` functions with inputs that they take eagerly."""
    calls = []
    for options in OPTIONS if name.startswith("nn.") else [None]:
        try:
            fn = CALLABLES[name] if options is None else CALLABLES[name](*options)
        except Exception:
            continue
        for given in INPUTS:
            if len(calls) < TRIED and _runs_eagerly(fn, given):
                calls.append((fn, given))
    if name in LAYERS:
        make, given = LAYERS[name]
        return [(make(), given)]
    return calls or [call for call in _of_table(name) if call[1] and _runs_eagerly(*call)]


def _of_table(name):
    """The valid call of a function that the check of wrong arguments has, as one of its tensors."""
    call = CALLS.get(name if "." in name else f"sf.{name}")
    if call is None:
        return
    leaves, form = pytree.flatten(call.arguments())

    def run(*tensors):
        rest = iter(tensors)
        every = [next(rest) if isinstance(v, sf.Tensor) else v for v in leaves]
        of_symbols = any(isinstance(t, Symbol) for t in tensors)
        wanted = call.of_symbols() if of_symbols and call.room == "m" else call
        return wanted.run(pytree.unflatten(form, every))

    yield run, tuple(v.detach().numpy() for v in leaves if isinstance(v, sf.Tensor))


def symbols_for(given, is_open):
    """The inputs as symbols, and the symbols."""
    found = []

    def symbol(x):
        sizes = [None] * x.ndim if is_open else x.shape
        found.append(sf.placeholder(sizes, sf.tensor(x).dtype, name=f"x{len(found)}"))
        return Symbol(found[-1].node)  # which may be changed in place

    return with_leaves(given, symbol), found


def tensors_in(result):
    return [x for x in pytree.flatten(result)[0] if hasattr(x, "__sf_mode__")]


def programs_of(name, is_open):
    """The calls of `calls_of`, each with its program, but for those that a graph refuses."""
    for fn, given in calls_of(name):
        args, inputs = symbols_for(given, is_open)
        try:
            program = sf.compile(inputs, tensors_in(fn(*args)))
        except sf.StaticflowError:  # as the table of `test_refused` says
            continue
        yield fn, given, program
