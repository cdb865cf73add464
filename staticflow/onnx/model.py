"""The model of ONNX that a program, a module or a function is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

import staticflow
from staticflow import pytree
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node
from staticflow.measure.tensor_names import name_tensors
from staticflow.nn.module import Module
from staticflow.onnx.graphs import write_region
from staticflow.onnx.writer import Value, Writer
from staticflow.ops.symbols.symbol import Symbol
from staticflow.static.compile import Program
from staticflow.static.inputs import placeholder
from staticflow.static.written import Written, write

__all__ = ["OPSET", "model_of"]

OPSET = 26
"""The version of ONNX's operators that is written: the first that has CumProd and BitCast."""


def model_of(model: Any, inputs: Any, library: Any) -> Any:
    """The model of ONNX that `export` writes, a ``ModelProto``."""
    written, names = _written_of(model, inputs)
    w = Writer(library)
    graph = written.graph
    count = len(written.names)
    values: list[Value] = []
    infos: list[Any] = []
    for name, p in zip(written.names, graph.params[:count], strict=True):
        infos.append(_input(w, name, p, values))
    updated = {id(t) for t in written.updated}
    for tensor, name, p in zip(written.variables, names, graph.params[count:], strict=True):
        kind = "parameter" if tensor.requires_grad else "buffer"
        value = w.initializer(np.asarray(tensor.detach().numpy()), w.name(name), kind)
        values.append(value)
        if id(tensor) in updated:
            infos.append(w.info(value, p.tensor_type))
    outs = write_region(w, graph, values)
    by_tensor = {id(t): n for t, n in zip(written.variables, names, strict=True)}
    labels = list(pytree.paths(written.structure, "output"))
    labels += [f"{by_tensor.get(id(t), 'variable')}.new" for t in written.updated]
    outs = w.results(outs, labels)
    results = [w.info(v, o.tensor_type) for v, o in zip(outs, graph.outputs, strict=True)]
    made = w.graph(_title(model), infos, results, w.initializers)
    return w.helper.make_model(
        made,
        opset_imports=[w.helper.make_opsetid("", OPSET)],
        ir_version=library.helper.find_min_ir_version_for([w.helper.make_opsetid("", OPSET)]),
        producer_name="staticflow",
        producer_version=staticflow.__version__,
    )


def _title(model: Any) -> str:
    if isinstance(model, Program):
        return "program"
    return str(getattr(model, "__name__", type(model).__name__))


def _input(w: Writer, name: str, p: Node, values: list[Value]) -> Any:
    value = Value(w.name(name), p.tensor_type.dtype)
    values.append(value)
    return w.info(value, p.tensor_type)


# -- what is exported ------------------------------------------------------------------------------


def _written_of(model: Any, inputs: Any) -> tuple[Written, list[str]]:
    """The graph, and what its variables are called."""
    if isinstance(model, Program):
        if inputs is not None:
            raise ArgumentError(
                "onnx.export: a program has its inputs; give 'inputs' for a module or a function, "
                f"at {format_locs(here())}"
            )
        return model._written, list(model.variables)
    if not callable(model):
        raise ArgumentError(
            "onnx.export: takes a program of sf.compile, a module, or a function of tensors, not "
            f"{type(model).__name__}, at {format_locs(here())}"
        )
    if inputs is None:
        raise ArgumentError(
            f"onnx.export: {_title(model)} is no program; say of which inputs it is exported, as "
            'in sf.onnx.export(model, path, sf.placeholder(("batch", 3), name="x")), at '
            f"{format_locs(here())}"
        )
    written = _call(model, inputs)
    modules = [model] if isinstance(model, Module) else []
    found = name_tensors(written.variables, modules)
    return written, [found.get(t, "tensor") for t in written.variables]


def _call(model: Callable[..., Any], inputs: Any) -> Written:
    """What a module or function makes of placeholders."""
    named = isinstance(inputs, Mapping)
    given = dict(inputs) if named else {}
    if not named:
        listed = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        given = {f"input_{i}" if len(listed) > 1 else "input": x for i, x in enumerate(listed)}
    symbols = {name: _placeholder(name, x) for name, x in given.items()}
    with _evaluating(model):
        outputs = model(**symbols) if named else model(*symbols.values())
    return write(symbols if named else list(symbols.values()), outputs)


def _placeholder(name: str, x: Any) -> Symbol:
    if isinstance(x, Symbol):
        return x
    if isinstance(x, Tensor | np.ndarray):
        dtype = x.dtype if isinstance(x, Tensor) else dtype_of(x.dtype)
        return placeholder(tuple(x.shape), dtype, name=name)
    raise ArgumentError(
        f"onnx.export: an input is {type(x).__name__}; it must be a placeholder, a tensor or an "
        f"array, at {format_locs(here())}"
    )


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """A module, and those in it, in evaluation, and then as they were."""
    modules = list(model.modules()) if isinstance(model, Module) else []
    before = [m.training for m in modules]
    for m in modules:
        m.training = False
    try:
        yield
    finally:
        for m, flag in zip(modules, before, strict=True):
            m.training = flag
