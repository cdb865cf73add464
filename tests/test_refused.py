"""What runs eagerly and is refused in a graph: every layer and public function is tried, on inputs
that it takes eagerly, as symbols with known sizes and with open ones; and the program of what is
not refused gives what the eager call gives.

The inputs are looked for among a few of every kind, so a new function has the check for nothing.
Whoever makes a graph take more deletes a row of the tables; no row may be added without a reason.
"""

import inspect
import warnings

import numpy as np
import pytest
from slices import daily
from wrong_arguments import CALLS

import staticflow as sf
from staticflow import nn, pytree
from staticflow.ops.symbol import Symbol

KNOWN = {
    "as_strided": "as_strided of a symbolic value",  # of what may lie otherwise
    "broadcast_shapes": "the truth of a symbolic value",  # takes shapes
    **dict.fromkeys(
        (
            "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor",
            "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
        ),
        "a size is",  # takes data or sizes
    ),
}  # fmt: skip
"""Refused with known sizes, with how the error begins."""

OPEN = {
    **KNOWN,
    "broadcast_shapes": "the iteration of a symbolic value",
    "combinations": "combinations: the number of elements",
    "pdist": "pdist: the number of rows",
    "F.pdist": "pdist: the number of rows",
    "split": "split: how many parts",
    "tensor_split": "tensor_split: the indices are of shape",
    "unbind": "unbind: how many slices",
    "vander": "vander: the number of powers",
}
"""Refused with open sizes."""

AT_RUN = {"linalg.lstsq": "lstsq, whose residuals are used in a graph"}
"""Refused as the program runs, for some values or sizes."""

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
        "associative_scan",
        "bartlett_window",
        "blackman_window",
        "can_cast",
        "empty",
        "enable_grad",
        "equal",
        "eye",
        "finfo",
        "fork_rng",
        "full",
        "get_default_dtype",
        "get_num_threads",
        "get_printoptions",
        "get_rng_state",
        "hamming_window",
        "hann_window",
        "iinfo",
        "initial_seed",
        "is_complex",
        "is_floating_point",
        "is_grad_enabled",
        "is_inference",
        "is_inference_mode_enabled",
        "is_nonzero",
        "is_same_size",
        "is_signed",
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
        "zeros",
    ]
)
"""Functions of no tensor, of functions, or that give no tensor."""

SLOW = {f"nn.{n}" for n in dir(nn) if n.startswith(("Transformer", "LSTM", "GRU", "RNN"))}
"""Layers whose programs take seconds to compile."""

NOT_CALLED = {
    "asarray", "as_tensor", "compile", "cond", "constant", "fori_loop", "from_dlpack",
    "from_numpy", "grad", "is_tensor", "jit", "load", "manual_seed", "map", "placeholder", "print",
    "save", "scan", "seed", "set_default_dtype", "set_grad_enabled", "set_num_threads",
    "set_printoptions", "set_rng_state", "symbol", "tensor", "variable", "while_loop",
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


def _with(given, make):
    """The inputs with something else in the places of arrays."""
    leaves, form = pytree.flatten(given)
    return pytree.unflatten(form, [make(x) if isinstance(x, np.ndarray) else x for x in leaves])


def _runs_eagerly(fn, given):
    try:
        leaves, _ = pytree.flatten(fn(*_with(given, sf.tensor)))
    except Exception:
        return False
    return any(isinstance(x, sf.Tensor) for x in leaves)


def _calls(name):
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
        return call.run(pytree.unflatten(form, every))

    yield run, tuple(v.detach().numpy() for v in leaves if isinstance(v, sf.Tensor))


def _symbols(given, is_open):
    """The inputs as symbols, and the symbols."""
    found = []

    def symbol(x):
        sizes = [None] * x.ndim if is_open else x.shape
        found.append(sf.placeholder(sizes, sf.tensor(x).dtype, name=f"x{len(found)}"))
        return Symbol(found[-1].node)  # which may be changed in place

    return _with(given, symbol), found


def _refusal(fn, given, is_open):
    """The error that ``fn`` gives of symbols; "" if it gives none."""
    try:
        fn(*_symbols(given, is_open)[0])
    except Exception as error:
        return str(error) or repr(error)
    return ""


def _outputs(result):
    return [x for x in pytree.flatten(result)[0] if hasattr(x, "__sf_mode__")]


def _compare(fn, given, is_open):
    """The program of ``fn`` gives what ``fn`` gives."""
    sf.manual_seed(0)
    wanted = _outputs(fn(*_with(given, sf.tensor)))
    args, inputs = _symbols(given, is_open)
    program = sf.compile(inputs, _outputs(fn(*args)))
    sf.manual_seed(0)
    found = program(*(x for x in pytree.flatten(given)[0] if isinstance(x, np.ndarray)))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(
            a.double().numpy(), b.detach().double().numpy(), 2e-4, 2e-5, equal_nan=True
        )


def _check_programs(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fn, given in _calls(name):
            for table, is_open in ((KNOWN, False), (OPEN, True)):
                if name in AT_RUN:
                    with pytest.raises(sf.StaticflowError, match=AT_RUN[name]):
                        _compare(fn, given, is_open)
                elif name not in table:
                    _compare(fn, given, is_open)


def _check(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = _calls(name)
        assert bool(calls) != (name in NO_INPUTS), "inputs for it belong into INPUTS or LAYERS"
        for table, is_open in ((KNOWN, False), (OPEN, True)):
            refusals = [r for r in (_refusal(*call, is_open) for call in calls) if r]
            wanted = table.get(name)
            if wanted is None:
                assert refusals == []
            else:
                assert refusals and all(r.startswith(wanted) for r in refusals)


@pytest.mark.parametrize("name", daily(sorted(CALLABLES), 60, "refused"))
def test_what_runs_eagerly_is_traced_or_refused_for_a_reason(name):
    _check(name)


@pytest.mark.parametrize("name", daily(sorted({*CALLABLES} - SLOW), 10, "compiled"))
def test_what_is_compiled_gives_what_runs_eagerly(name):
    _check_programs(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_all_that_is_compiled_gives_what_runs_eagerly(name):
    _check_programs(name)


@pytest.mark.parametrize("name", sorted(OPEN))
def test_what_is_refused_is_in_the_table(name):
    _check(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_all_that_runs_eagerly_is_traced_or_refused_for_a_reason(name):
    _check(name)
