"""Valid calls of everything public beside the functions and methods of ops, which
`wrong_arguments.CALLS` has: derivatives, loops, compiling, state files; and of `public_layers`."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from public_layers import Arguments, Public, layers, modules, optimisers, requiring, values

import staticflow as sf
from staticflow import pytree
from staticflow.tools.cli import main

__all__ = ["PUBLIC", "Public"]


def _program() -> Any:
    p = sf.placeholder((None, 3), name="x")
    return sf.compile([p], p * 2)


def _utilities() -> Iterator[Public]:
    init = {
        "calculate_gain": ["relu"], "constant_": [values(3, 3), 0.5], "dirac_": [values(2, 2, 3)], "eye_": [values(3, 3)],
        "kaiming_normal_": [values(3, 3)], "kaiming_uniform_": [values(3, 3)], "normal_": [values(3, 3)], "ones_": [values(3)],
        "orthogonal_": [values(3, 3)], "sparse_": [values(3, 3), 0.5], "trunc_normal_": [values(3, 3)], "uniform_": [values(3)],
        "xavier_normal_": [values(3, 3)], "xavier_uniform_": [values(3, 3)], "zeros_": [values(3)],
    }  # fmt: skip
    for name, args in init.items():
        yield Public(
            f"init.{name}",
            lambda n=name, a=args: (
                getattr(sf.nn.init, n),
                [v.clone() if isinstance(v, sf.Tensor) else v for v in a],
                {},
            ),
        )
    U, R = sf.nn.utils, sf.nn.utils.rnn
    for name in ("clip_grad_norm", "clip_grad_norm_", "clip_grad_value", "clip_grad_value_"):

        def make(name: str = name) -> Arguments:
            p = requiring()
            p.grad = values(3)
            return getattr(U, name), [[values(3)] if not name.endswith("_") else [p], 1.0], {}

        yield Public(f"utils.{name}", make)
    yield Public("utils.get_total_norm", lambda: (U.get_total_norm, [[values(3)]], {}))
    yield Public(
        "utils.parameters_to_vector", lambda: (U.parameters_to_vector, [[requiring()]], {})
    )
    yield Public(
        "utils.vector_to_parameters",
        lambda: (U.vector_to_parameters, [values(3), [requiring()]], {}),
    )
    S, Z = U.parametrizations, U.parametrize
    for name in ("orthogonal", "spectral_norm", "weight_norm"):
        yield Public(
            f"parametrizations.{name}", lambda n=name: (getattr(S, n), [sf.nn.Linear(3, 3)], {})
        )
    normed = lambda: S.weight_norm(sf.nn.Linear(3, 3))  # noqa: E731
    for name in ("spectral_norm", "weight_norm"):
        yield Public(f"utils.{name}", lambda n=name: (getattr(U, n), [sf.nn.Linear(3, 3)], {}))
        yield Public(
            f"utils.remove_{name}", lambda n=name: (getattr(U, f"remove_{n}"), [normed()], {})
        )
    yield Public("parametrize.cached", lambda: (Z.cached, [], {}))
    yield Public("parametrize.is_parametrized", lambda: (Z.is_parametrized, [normed()], {}))
    yield Public(
        "parametrize.register_parametrization",
        lambda: (Z.register_parametrization, [normed(), "bias", sf.nn.ReLU()], {}),
    )
    yield Public(
        "parametrize.remove_parametrizations",
        lambda: (Z.remove_parametrizations, [normed(), "weight"], {}),
    )
    packed = lambda: R.pack_sequence([values(3, 2), values(2, 2)])  # noqa: E731
    yield Public(
        "rnn.pack_padded_sequence", lambda: (R.pack_padded_sequence, [values(3, 2, 2), [3, 2]], {})
    )
    yield Public("rnn.pack_sequence", lambda: (R.pack_sequence, [[values(3, 2), values(2, 2)]], {}))
    yield Public("rnn.pad_packed_sequence", lambda: (R.pad_packed_sequence, [packed()], {}))
    yield Public("rnn.pad_sequence", lambda: (R.pad_sequence, [[values(3, 2), values(2, 2)]], {}))
    yield Public("rnn.unpack_sequence", lambda: (R.unpack_sequence, [packed()], {}))
    yield Public(
        "rnn.unpad_sequence", lambda: (R.unpad_sequence, [values(3, 2, 2), sf.tensor([3, 2])], {})
    )
    yield Public(
        "nn.functional_call",
        lambda: (sf.func.functional_call, [sf.nn.Linear(3, 3), {}, (values(3, 3),)], {}),
    )
    yield Public(
        "func.stack_module_state",
        lambda: (sf.func.stack_module_state, [[sf.nn.Linear(3, 3), sf.nn.Linear(3, 3)]], {}),
    )
    yield Public(
        "testing.assert_close", lambda: (sf.testing.assert_close, [values(3), values(3)], {})
    )
    yield Public(
        "utils.checkpoint",
        lambda: (
            sf.utils.checkpoint.checkpoint,
            [lambda a: a * 2, requiring()],
            {"use_reentrant": False},
        ),
    )
    yield Public(
        "utils.checkpoint_sequential",
        lambda: (
            sf.utils.checkpoint.checkpoint_sequential,
            [[sf.nn.ReLU(), sf.nn.ReLU()], 2, requiring()],
            {"use_reentrant": False},
        ),
    )


def _derivatives() -> Iterator[Public]:
    square = lambda a: (a * a).sum()  # noqa: E731
    for name in ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev"):
        yield Public(f"func.{name}", lambda n=name: (getattr(sf.func, n), [square], {}))
        yield Public(
            f"func.{name}()", lambda n=name: (getattr(sf.func, n)(square), [values(3)], {})
        )
    yield Public("func.jvp", lambda: (sf.func.jvp, [square, (values(3),), (values(3),)], {}))
    yield Public("func.vjp", lambda: (sf.func.vjp, [square, values(3)], {}))
    yield Public("func.vjp()", lambda: (sf.func.vjp(square, values(3))[1], [sf.tensor(1.0)], {}))
    yield Public("func.linearize", lambda: (sf.func.linearize, [square, values(3)], {}))
    yield Public(
        "func.linearize()", lambda: (sf.func.linearize(square, values(3))[1], [values(3)], {})
    )
    yield Public("vmap", lambda: (sf.vmap, [square], {"in_dims": 0, "chunk_size": 2}))
    yield Public("vmap()", lambda: (sf.vmap(square), [values(3, 2)], {}))
    A = sf.autograd
    for name in ("hessian", "jacobian"):
        yield Public(
            f"functional.{name}", lambda n=name: (getattr(A.functional, n), [square, values(3)], {})
        )
    for name in ("hvp", "vhp", "jvp"):
        yield Public(
            f"functional.{name}",
            lambda n=name: (getattr(A.functional, n), [square, values(3), values(3)], {}),
        )
    yield Public("functional.vjp", lambda: (A.functional.vjp, [square, values(3)], {}))
    yield Public("autograd.backward", lambda: (A.backward, [(requiring() * 2).sum()], {}))

    def grad() -> Arguments:
        p = requiring()
        return A.grad, [(p * 2).sum(), [p]], {}

    def symbolic() -> Arguments:
        p = sf.placeholder((3,))
        return sf.grad, [(p * p).sum(), [p]], {}

    yield Public("autograd.grad", grad)
    yield Public("sf.grad", symbolic)
    double = lambda: sf.ones(2, dtype=sf.float64, requires_grad=True)  # noqa: E731
    yield Public("autograd.gradcheck", lambda: (A.gradcheck, [square, (double(),)], {}))
    yield Public("autograd.gradgradcheck", lambda: (A.gradgradcheck, [square, (double(),)], {}))
    for name, args in {"no_grad": [], "enable_grad": [], "inference_mode": [], "set_grad_enabled": [True],
                       "detect_anomaly": [], "set_detect_anomaly": [False]}.items():  # fmt: skip
        yield Public(
            f"autograd.{name}", lambda n=name, a=args: (_entered(getattr(A, n)), list(a), {})
        )

    class Double(A.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, a: Any, factor: Any = 2) -> Any:
            ctx.save_for_backward(a)
            return a * factor

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return ct * 2, None

    Double.forward.__qualname__ = "Double.forward"  # as at the top of a user's file
    yield Public("Function.apply", lambda: (Double.apply, [requiring()], {}))


def _entered(context: Any) -> Any:
    def called(*args: Any, **kwargs: Any) -> None:
        made = context(*args, **kwargs)
        if hasattr(made, "__enter__"):  # and no function that it decorates
            with made:
                pass

    called.__signature__ = inspect.signature(context)  # type: ignore[attr-defined]
    return called


def _tensors() -> Iterator[Public]:
    for name, value in {
        "data": values(3, 3),
        "grad": values(3, 3),
        "requires_grad": True,
        "_version": 3,
        "shape": (9,),
        "dtype": sf.float64,
        "names": None,
    }.items():
        yield Public(
            f"Tensor.{name} =", lambda n=name, v=value: (_setter(values(3, 3), n), [v], {})
        )
        yield Public(
            f"Symbol.{name} =",
            lambda n=name, v=value: (_setter(sf.placeholder((3, 3)), n), [v], {}),
        )
    for name, args in {
        "__getitem__": [0], "__setitem__": [0, 0.5], "__contains__": [0.5],
        "backward": [], "register_hook": [lambda g: g], "retain_grad": [], "__eq__": [1], "__pow__": [2], "__rpow__": [2], "__add__": [1], "__radd__": [1], "__iadd__": [1],
        "__lshift__": [1], "__and__": [True], "__matmul__": [values(3, 3)], "__rmatmul__": [values(3, 3)], "__imatmul__": [values(3, 3)], "__floordiv__": [2], "__mod__": [2],
        "__divmod__": [2], "__len__": [], "__reversed__": [], "cuda": [], "item": [], "map_": [values(3, 3), lambda a, b: a],
        "apply_": [lambda a: a], "numpy": [], "tolist": [], "__round__": [], "__array__": [], "__dlpack__": [], "__dlpack_device__": [],
    }.items():  # fmt: skip
        if hasattr(sf.Tensor, name):
            yield Public(
                f"Tensor.{name}", lambda n=name, a=args: (getattr(values(3, 3), n), list(a), {})
            )
        if hasattr(type(sf.placeholder((3,))), name):
            yield Public(
                f"Symbol.{name}",
                lambda n=name, a=args: (getattr(sf.placeholder((3, 3)), n), list(a), {}),
            )
    for name in ("get_state", "initial_seed", "manual_seed", "seed", "set_state", "draw"):
        args = {"manual_seed": [3], "set_state": [sf.Generator().get_state()]}.get(name, [])
        yield Public(
            f"Generator.{name}", lambda n=name, a=args: (getattr(sf.Generator(), n), list(a), {})
        )
    yield Public("sf.Generator", lambda: (sf.Generator, [], {}))
    yield Public("sf.Tensor", lambda: (sf.Tensor, [2, 3], {}))
    yield Public("sf.LongTensor", lambda: (sf.LongTensor, [2, 3], {}))
    yield Public("sf.device", lambda: (sf.device, ["cpu"], {}))

    d = sf.placeholder((None,)).shape[0]
    for name in (
        "__add__",
        "__mul__",
        "__floordiv__",
        "__mod__",
        "__sub__",
        "__rsub__",
        "__rfloordiv__",
        "__eq__",
        "__lt__",
        "__ge__",
        "__pow__",
        "__truediv__",
        "__index__",
        "__int__",
        "__float__",
        "__bool__",
        "__format__",
        "__neg__",
    ):
        if hasattr(d, name):
            yield Public(
                f"Dim.{name}",
                lambda n=name: (
                    getattr(sf.placeholder((None,)).shape[0], n),
                    []
                    if n in ("__index__", "__int__", "__float__", "__bool__", "__neg__")
                    else [2],
                    {},
                ),
            )


def _setter(target: Any, name: str) -> Any:
    def assign(value: Any) -> None:
        setattr(target, name, value)

    return assign


def _programs() -> Iterator[Public]:
    def compiled(**options: Any) -> Arguments:
        p = sf.placeholder((None, 3), name="x")
        return sf.compile, [[p], p * 2], options

    def update() -> Arguments:
        p, v = sf.placeholder((3,), name="x"), sf.variable([1.0, 2.0, 3.0])
        return sf.compile, [[p], (p * v).sum()], {"updates": {v: v + p}}

    yield Public("sf.compile", compiled)
    yield Public("sf.compile updates", update)
    yield Public("Program()", lambda: (_program(), [values(2, 3)], {}))
    yield Public("Program() by name", lambda: (_program(), [], {"x": values(2, 3)}))
    for name in ("check_nan", "explain", "source", "plan"):
        attribute = getattr(_program(), name)
        if callable(attribute):
            args = [values(2, 3)] if name == "check_nan" else []
            yield Public(
                f"Program.{name}", lambda n=name, a=args: (getattr(_program(), n), list(a), {})
            )
    for name in (
        "graph",
        "plan",
        "source",
        "optimized",
        "profile",
        "compile_count",
        "numerics",
        "nothing",
    ):
        yield Public(f"Program.{name} =", lambda n=name: (_setter(_program(), n), [3], {}))
    yield Public("sf.jit", lambda: (sf.jit, [lambda a: a * 2], {}))
    yield Public("sf.jit of known sizes", lambda: (sf.jit, [lambda a: a * 2], {"dynamic": False}))
    yield Public("jit()", lambda: (sf.jit(lambda a, b=2: a * 2), [values(2, 3)], {}))
    yield Public(
        "jit() of a dict", lambda: (sf.jit(lambda a: a["x"] * 2), [{"x": values(2, 3)}], {})
    )
    yield Public("sf.placeholder", lambda: (sf.placeholder, [(2, 3)], {}))
    yield Public("sf.symbol", lambda: (sf.symbol, [values(2)] if False else [(2, 3)], {}))
    yield Public("sf.constant", lambda: (sf.constant, [1.0], {}))
    yield Public("sf.variable", lambda: (sf.variable, [[1.0, 2.0]], {}))
    yield Public("sf.print", lambda: (sf.print, [values(2)], {"end": ""}))
    for symbolic in (False, True):

        def a(*shape: int, symbolic: bool = symbolic) -> Any:
            return sf.placeholder(shape) if symbolic else values(*shape)

        mark = " of symbols" if symbolic else ""
        step = lambda c, v: (c + v, c * v)  # noqa: E731
        yield Public(f"sf.scan{mark}", lambda a=a, step=step: (sf.scan, [step, a(3), a(4, 3)], {}))
        yield Public(f"sf.map{mark}", lambda a=a: (sf.map, [lambda v: v * 2, a(4, 3)], {}))
        yield Public(
            f"sf.fori_loop{mark}", lambda a=a: (sf.fori_loop, [0, 3, lambda i, c: c * 2, a(3)], {})
        )
        yield Public(
            f"sf.while_loop{mark}",
            lambda a=a: (sf.while_loop, [lambda c: c.sum() < 9, lambda c: c + 1, a(3)], {}),
        )
        yield Public(
            f"sf.cond{mark}",
            lambda a=a: (sf.cond, [a(3).sum() > 0, lambda v: v, lambda v: -v, a(3)], {}),
        )
        yield Public(
            f"sf.switch{mark}",
            lambda a=a: (sf.switch, [1, [lambda v: v, lambda v: -v], a(3)], {}),
        )
        yield Public(
            f"sf.associative_scan{mark}",
            lambda a=a: (sf.associative_scan, [lambda left, right: left + right, a(4, 3)], {}),
        )


def _others() -> Iterator[Public]:
    folder = Path(tempfile.gettempdir())
    file = folder / "staticflow_public_calls.safetensors"
    sf.save({"x": values(2)}, file)
    yield Public("sf.save", lambda: (sf.save, [{"x": values(2)}, str(file)], {}))
    yield Public("sf.load", lambda: (sf.load, [str(file)], {}))
    for name, args in {
        "manual_seed": [3], "seed": [], "set_rng_state": [sf.get_rng_state()], "set_default_dtype": [sf.float32],
        "set_grad_enabled": [True], "set_num_threads": [1], "set_printoptions": [], "fork_rng": [], "printoptions": [],
    }.items():  # fmt: skip
        fn = getattr(sf, name)
        fn = _entered(fn) if name in ("fork_rng", "printoptions", "set_grad_enabled") else fn
        yield Public(f"sf.{name}", lambda fn=fn, a=args: (fn, list(a), {}))
    yield Public("cuda.is_available", lambda: (sf.cuda.is_available, [], {}))


def _trees() -> Iterator[Public]:
    flat = pytree.flatten((1, 2))[1]
    yield Public("pytree.flatten", lambda: (pytree.flatten, [{"a": 1}], {}))
    yield Public("pytree.map_tree", lambda: (pytree.map_tree, [lambda a: a, {"a": 1}], {}))
    yield Public("pytree.paths", lambda: (pytree.paths, [flat], {}))
    yield Public("pytree.unflatten", lambda: (pytree.unflatten, [flat, [3, 4]], {}))


def _commands() -> Iterator[Public]:
    """Command lines, which are words whatever is given for a word."""

    def called(*words: Any) -> None:
        status = main([str(word) for word in words])
        assert status in (0, 1, 2)

    called.__qualname__ = "main"
    small = ["compare", "--quick", "--steps", "1"]
    model, inputs = "staticflow.nn:Linear(3, 2)", "f32[N=2, 3]"
    given = [model, "--input", inputs, "--loss", "mse", "--optimizer", "sgd"]
    yield Public("tools.main", lambda: (called, ["info"], {}))
    report = str(Path(tempfile.gettempdir()) / "staticflow_compare.json")
    words = {"loss": "mse", "optimizer": "sgd", "dtype": "float32", "json": report}
    for option, word in {"steps": "1", "seed": "1", "lr": "0.1", **words}.items():
        line = [*small, *given, f"--{option}"]
        yield Public(
            f"tools.compare --{option}", lambda c=line, w=word: (lambda v: called(*c, v), [w], {})
        )
    for name, line, word in (
        ("MODEL", [*small, "--input", inputs], model),
        ("--input", [*small, model, "--input"], inputs),
    ):
        yield Public(
            f"tools.compare {name}", lambda c=line, w=word: (lambda v: called(*c, v), [w], {})
        )


PUBLIC: dict[str, Public] = {
    p.name: p
    for group in (
        layers,
        optimisers,
        modules,
        _utilities,
        _derivatives,
        _tensors,
        _programs,
        _others,
        _trees,
        _commands,
    )
    for p in group()
}
