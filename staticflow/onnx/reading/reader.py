"""From the graphs and nodes of a file to plans, with all that can be wrong found on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from staticflow.onnx.reading.arrays import Array, read_array, wanted_dtype
from staticflow.onnx.reading.attributes import default_of, plain_value, refuse_strange
from staticflow.onnx.reading.file import domain_of, opsets
from staticflow.onnx.reading.ordering import in_order, last_uses
from staticflow.onnx.reading.plan import GraphPlan, NodePlan, Spec
from staticflow.onnx.reading.refuse import WrongModel, short
from staticflow.onnx.reading.rows.row import Row
from staticflow.onnx.reading.table import BY_FUNCTION, ROWS, why_not

__all__ = ["MOST_DEEP", "MOST_NODES", "Reader"]

MOST_NODES = 1_000_000
"""So many nodes a model has at most, those of functions counted wherever they are called."""

MOST_DEEP = 24
"""So many graphs and functions may lie in each other."""

_TENSOR, _GRAPH = 4, 5


class Reader:
    """Reads the graphs of one model: what its operators are by the versions that it says, its
    functions, and the folder where its data may lie."""

    def __init__(
        self, library: Any, versions: Mapping[str, int], functions: Iterable[Any] = (),
        folder: str | None = None,
    ) -> None:  # fmt: skip
        self.library, self.versions, self.folder = library, versions, folder
        self._functions: dict[tuple[str, str, str], Any] = {}
        for f in functions:
            key = (domain_of(f.domain), f.name, getattr(f, "overload", ""))
            if key in self._functions:
                raise WrongModel(f"has the function {short(f.name)} twice")
            self._functions[key] = f
        self._bodies: dict[Any, GraphPlan] = {}
        self._depth = 0

    # -- graphs ------------------------------------------------------------------------------------

    def graph(self, proto: Any, outer: frozenset[str] = frozenset()) -> GraphPlan:
        """The plan of a graph inside of which the names ``outer`` are known."""
        constants: dict[str, Array] = {}
        if proto.sparse_initializer:
            raise WrongModel("has sparse initializers, which are not read; write them dense")
        for tensor in proto.initializer:
            if not tensor.name:
                raise WrongModel("has an initializer without a name")
            if tensor.name in constants:
                raise WrongModel(f"has the initializer {short(tensor.name)} twice")
            constants[tensor.name] = self._array(tensor, f"initializer {short(tensor.name)}")
        inputs = tuple(self.spec(i) for i in proto.input)
        outputs = tuple(self.spec(o) for o in proto.output)
        return self._plan(proto.name, inputs, outputs, proto.node, constants, outer, {})

    def spec(self, info: Any) -> Spec:
        """An input or output as it is declared."""
        if not info.name:
            raise WrongModel("has an input or output without a name")
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type" or not info.type.tensor_type.elem_type:
            return Spec(info.name, None, None)
        tensor = info.type.tensor_type
        try:
            dtype = wanted_dtype(tensor.elem_type, self.library)
        except WrongModel as wrong:
            raise WrongModel(f"its value {short(info.name)} {wrong}") from None
        shape = None
        if tensor.HasField("shape"):
            shape = tuple(self._dim(d, info.name) for d in tensor.shape.dim)
        return Spec(info.name, dtype, shape)

    def _dim(self, dim: Any, name: str) -> int | str | None:
        if dim.HasField("dim_value"):
            if not 0 <= dim.dim_value < 1 << 62:
                raise WrongModel(f"says a size of {short(name)} to be {dim.dim_value}")
            return int(dim.dim_value)
        return dim.dim_param or None

    def _plan(
        self, name: str, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...], protos: Any,
        constants: dict[str, Array], outer: frozenset[str], refs: Mapping[str, Any],
        optional: bool = False,
    ) -> GraphPlan:  # fmt: skip
        own = [s.name for s in inputs]
        if len(set(own)) < len(own):
            raise WrongModel(f"its graph {short(name)} has two inputs of one name")
        known = outer | set(own) | set(constants)
        made = _made_names(protos, set(own) | set(constants), name)
        ordered = in_order(protos, known, made, name)
        for spec in outputs:
            if not optional and spec.name not in made and spec.name not in known:
                raise WrongModel(
                    f"its graph {short(name)} gives {short(spec.name)}, which no node makes"
                )
        self._depth += 1
        if self._depth > MOST_DEEP:
            raise WrongModel(f"more than {MOST_DEEP} of its graphs and functions lie in each other")
        plans: list[NodePlan] = []
        inside = known | made
        for proto in ordered:
            label = _label(proto)
            try:
                plan = self._node(proto, label, inside, refs)
            except WrongModel as wrong:
                text = str(wrong)
                raise WrongModel(
                    text if text.startswith("its ") else f"its {label} {text}"
                ) from None
            if isinstance(plan, NodePlan):
                plans.append(plan)
            else:
                constants[proto.output[0]] = plan
        self._depth -= 1
        weight = len(plans) + sum(b.weight for p in plans for b in _bodies(p))
        if weight > MOST_NODES:
            raise WrongModel(
                f"its graph {short(name)} has {weight} nodes with those of its functions; "
                f"{MOST_NODES} are read at most"
            )
        used = {n for p in plans for n in p.inputs} | {s.name for s in outputs}
        used |= {n for p in plans for b in _bodies(p) if p.body is None for n in b.captured}
        captured = frozenset(
            n for n in used if n not in made and n not in own and n not in constants
        )
        return GraphPlan(
            name, inputs, outputs, last_uses(plans, outputs, made), constants, captured, weight
        )

    def _array(self, tensor: Any, what: str) -> Array:
        try:
            return read_array(tensor, self.folder, self.library)
        except WrongModel as wrong:
            raise WrongModel(f"its {what} {wrong}") from None

    # -- nodes -------------------------------------------------------------------------------------

    def _node(
        self, proto: Any, label: str, inside: frozenset[str] | set[str], refs: Mapping[str, Any]
    ) -> NodePlan | Array:
        domain, op = domain_of(proto.domain), proto.op_type
        attrs = _bound_attributes(proto, refs)
        function = self._functions.get((domain, op, getattr(proto, "overload", "")))
        if function is not None:
            return self._call(proto, label, function, attrs)
        schema = self._schema(domain, op)
        refuse_strange(attrs, schema)
        _refuse_counts(proto, schema)
        if domain == "" and op == "Constant":
            return self._constant(proto, attrs)
        key = op if domain == "" else f"{domain}.{op}"
        row = ROWS.get(key)
        if row is not None and schema.since_version < row.since:
            old = f"{key} before {row.since}"
            key, row = (old, ROWS[old]) if old in ROWS else (key, row)
        if row is not None and schema.since_version >= row.since:
            return self._by_row(proto, label, key, row, schema, attrs, inside)
        if row is None and key in BY_FUNCTION and schema.has_function:
            body = self.library.FunctionProto()
            body.CopyFrom(schema.function_body)
            return self._call(proto, label, body, attrs, schema)
        if row is None and key in BY_FUNCTION and schema.has_context_dependent_function:
            return NodePlan(
                label, None, tuple(n or None for n in proto.input), {},
                {"op": op, "domain": domain, "versions": tuple(self.versions.items())},
                tuple(proto.output), unbound=_with(proto, attrs).SerializeToString(),
            )  # fmt: skip
        if row is not None:
            raise WrongModel(
                f"is {op} of version {schema.since_version}; it is read from version {row.since} "
                "on: convert the model with onnx.version_converter"
            )
        raise WrongModel(f"has no meaning here: {why_not(key)}")

    def _schema(self, domain: str, op: str) -> Any:
        if domain not in self.versions:
            raise WrongModel(
                f"is of the domain {short(domain)}, and the model does not say which version of "
                "its operators it takes"
            )
        try:
            schema = self.library.defs.get_schema(op, min(self.versions[domain], 1 << 30), domain)
        except Exception:  # a class of its own, which is no public name
            where = f" of the domain {short(domain)}" if domain else ""
            raise WrongModel(
                f"is an operator{where} that onnx {self.library.__version__} does not know in "
                f"version {self.versions[domain]}, and no function of the model has its name"
            ) from None
        if schema.deprecated:
            raise WrongModel(
                f"is {op}, which ONNX has taken away before version {self.versions[domain]}"
            )
        return schema

    def _constant(self, proto: Any, attrs: Mapping[str, Any]) -> Array:
        if len(attrs) != 1:
            raise WrongModel(f"is a constant of {len(attrs)} values; it has one")
        ((name, attr),) = attrs.items()
        if name == "value":
            return read_array(attr.t, self.folder, self.library)
        if name not in ("value_float", "value_floats", "value_int", "value_ints"):
            raise WrongModel(f"is a constant by {name}, which is not read")
        value = plain_value(attr)
        return np.asarray(value, np.float32 if "float" in name else np.int64)

    def _by_row(
        self, proto: Any, label: str, key: str, row: Row, schema: Any, attrs: Mapping[str, Any],
        inside: frozenset[str] | set[str],
    ) -> NodePlan:  # fmt: skip
        formal = [i.name for i in schema.inputs]
        keywords = row.keywords
        given: list[str | None] = []
        named: dict[str, str] = {}
        for place, name in enumerate(proto.input):
            role = formal[min(place, len(formal) - 1)]
            if role in keywords:
                if name:
                    named[role] = name
            else:
                given.append(name or None)
        while given and given[-1] is None:
            given.pop()
        values: dict[str, Any] = {}
        for name, attr in attrs.items():
            if name in keywords:
                values[name] = self._value(attr, inside)
            elif name not in row.ignored and not _says_the_default(attr, schema):
                raise WrongModel(f"has the attribute {name}, which has no meaning here yet")
        for name, declared in schema.attributes.items():
            if name in keywords and name not in values:
                default = default_of(declared)
                if default is not None:
                    values[name] = default
        if "outputs" in keywords:
            values["outputs"] = len(proto.output)
        for name, optional in keywords.items():
            if not optional and name not in values and name not in named:
                raise WrongModel(f"lacks {name}")
        names, more = row.positional
        if len(given) > len(names) and not more:
            raise WrongModel(f"has {len(given)} inputs; {key} takes {len(names)}")
        return NodePlan(label, key, tuple(given), named, values, tuple(proto.output))

    def _value(self, attr: Any, inside: frozenset[str] | set[str]) -> Any:
        if attr.type == _TENSOR:
            return read_array(attr.t, self.folder, self.library)
        if attr.type == _GRAPH:
            return self.graph(attr.g, frozenset(inside))
        return plain_value(attr)

    # -- functions ---------------------------------------------------------------------------------

    def _call(
        self, proto: Any, label: str, function: Any, attrs: Mapping[str, Any], schema: Any = None
    ) -> NodePlan:
        if len(proto.input) > len(function.input) or len(proto.output) > len(function.output):
            raise WrongModel(
                f"has {len(proto.input)} inputs and {len(proto.output)} outputs; the function "
                f"{short(function.name)} has {len(function.input)} and {len(function.output)}"
            )
        refs = dict(attrs)
        for default in function.attribute_proto:
            refs.setdefault(default.name, default)
        if schema is not None:
            for name, declared in schema.attributes.items():
                if declared.default_value.type:
                    refs.setdefault(name, declared.default_value)
        for name in function.attribute:
            refs.setdefault(name, None)
        body = self.function(function, refs)
        return NodePlan(
            label, None, tuple(n or None for n in proto.input), {}, {}, tuple(proto.output), body
        )

    def function(self, function: Any, refs: Mapping[str, Any]) -> GraphPlan:
        """The plan of a function whose attributes are ``refs``, read once for each of these."""
        bound = tuple(sorted((n, a.SerializeToString()) for n, a in refs.items() if a is not None))
        key = (domain_of(function.domain), function.name, function.SerializeToString(), bound)
        if key in self._bodies:
            found = self._bodies[key]
            if found.weight < 0:
                raise WrongModel(f"is of the function {short(function.name)}, which calls itself")
            return found
        names = list(function.input)
        inputs = tuple(Spec(n, None, None) for n in names)
        outputs = tuple(Spec(n, None, None) for n in function.output)
        self._bodies[key] = GraphPlan(function.name, inputs, outputs, (), weight=-1)
        before = self.versions
        own = opsets(function.opset_import, self.library)
        try:
            self.versions = {**before, **own}
            found = self._plan(
                function.name, inputs, outputs, function.node, {}, frozenset(), refs, True
            )
        finally:
            self.versions = before
        self._bodies[key] = found
        return found


def _made_names(protos: Any, taken: set[str], graph: str) -> set[str]:
    """The names that nodes give values, each once."""
    made: set[str] = set()
    for proto in protos:
        for name in proto.output:
            if not name:
                continue
            if name in made or name in taken:
                raise WrongModel(f"its graph {short(graph)} makes {short(name)} twice")
            made.add(name)
    return made


def _label(proto: Any) -> str:
    name = proto.name or (proto.output[0] if proto.output else "")
    return f"node {short(name)} ({proto.op_type[:60]})"


def _bodies(plan: NodePlan) -> list[GraphPlan]:
    own = [] if plan.body is None else [plan.body]
    return own + [v for v in plan.attrs.values() if isinstance(v, GraphPlan)]


def _bound_attributes(proto: Any, refs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a node by name; those of a function's nodes may be the function's own."""
    found: dict[str, Any] = {}
    for attr in proto.attribute:
        if attr.name in found:
            raise WrongModel(f"has the attribute {short(attr.name)} twice")
        if attr.ref_attr_name:
            if attr.ref_attr_name not in refs:
                raise WrongModel(
                    f"takes the attribute {short(attr.ref_attr_name)} of a function that has none "
                    "of that name"
                )
            bound = refs[attr.ref_attr_name]
            if bound is None:
                continue
            copy = type(attr)()
            copy.CopyFrom(bound)
            copy.name = attr.name
            attr = copy
        found[attr.name] = attr
    return found


def _with(proto: Any, attrs: Mapping[str, Any]) -> Any:
    """A node with these attributes."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    del copy.attribute[:]
    copy.attribute.extend(attrs.values())
    return copy


def _says_the_default(attr: Any, schema: Any) -> bool:
    """Whether an attribute says what holds without it, too."""
    default = default_of(schema.attributes[attr.name])
    return default is not None and bool(plain_value(attr) == default)


def _refuse_counts(proto: Any, schema: Any) -> None:
    """Raises `WrongModel` for more or fewer inputs or outputs than an operator has."""
    least, most = schema.min_input, schema.max_input
    if not least <= len(proto.input) <= most:
        raise WrongModel(f"has {len(proto.input)} inputs; {schema.name} takes {least} to {most}")
    for place in range(least):
        if (
            not proto.input[place]
            and schema.inputs[min(place, len(schema.inputs) - 1)].option.name != "Optional"
        ):
            raise WrongModel(f"lacks its input {place}, which must be given")
    if not schema.min_output <= len(proto.output) <= schema.max_output:
        raise WrongModel(
            f"has {len(proto.output)} outputs; {schema.name} gives {schema.min_output} to "
            f"{schema.max_output}"
        )
