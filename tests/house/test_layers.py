"""A layer imports only from layers before it, and in a layer a room only from rooms before it; and
what a module puts into objects of another, as they are imported or later, is listed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import staticflow
from staticflow.ops.declaring.eager_side import eager, install

PACKAGE = Path(staticflow.__file__).parent

LAYERS = (
    ("data_classes",),
    ("config", "errors"),
    ("graph",),
    ("pytree",),
    ("ops",),
    ("special", "linalg"),
    ("passes",),
    ("codegen",),
    ("native",),
    ("runtime",),
    ("eager",),
    ("backends",),
    ("distributed",),
    ("serialization",),
    ("measure",),
    ("static",),
    ("autograd",),
    ("utils", "testing"),
    ("nn", "optim"),
    ("distributions",),
    ("func", "amp"),
    ("array_api",),
    ("onnx", "einops"),
    ("torch",),
    ("profiling",),
    ("drawing",),
    ("comparison",),
    ("tools",),
    ("__init__", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# The rooms of a layer: "" is the files at its root, but for those that are named. What stands in
# one row keeps apart.
ROOMS = {
    "ops": (
        ("declaring",),
        ("basics",),
        ("elementwise",),
        ("indexing",),
        ("along",),
        ("matrices",),
        ("statistics",),
        ("windows", "random"),
        ("tensors",),
        ("symbols",),
        ("loops",),
        ("batching",),
        ("",),
    ),
    "runtime": (("",), ("device",)),
    "passes": (("",), ("loops",), ("partition",), ("pipeline",)),
    "codegen": (
        ("",),
        ("maths", "gemm"),
        ("lower",),
        ("schedule",),
        ("program",),
        ("llvm", "cuda"),
    ),
}
ROOM_RANK = {
    layer: {name: rank for rank, names in enumerate(rows) for name in names}
    for layer, rows in ROOMS.items()
}

# nn and optim are written in ops, so that both modes share them; they see of the rest only this.
MODELS = {"nn", "optim"}
MODELS_SEE = {"ops", "pytree", "graph", "errors", "data_classes"}
EXCEPTIONS = {
    ("nn.parameter", "eager"): "parameters are eager tensors",
    ("optim.swa_utils", "nn"): "an averaged model is a module",
}

# What modules write into objects that they import of others, so that those can ask for what comes
# after them. Each is a way around the layers: better none than one more. (Not listed is the state
# of a thread, `ops.declaring.thread.thread`, which is there to be written.)
WIRED = {
    # the setting that switches of PyTorch's names are
    ("backends", "config.config.tf32"),
    # where draws are made, which are told of every generator
    ("eager.random", "ops.random.sampling.default_source.append()"),
    # wrappers of functions, around which errors for arguments of a wrong kind go
    ("ops.basics.autocast", "ops.declaring.foreign.UNWORDED.add()"),
    # errors for arguments of a wrong kind, around methods of classes
    ("distributions", "distributions.distribution.Distribution.refuses_foreign_in_classes()"),
    ("distributions", "distributions.distribution.Distribution.refuses_foreign_to_make()"),
    ("nn", "nn.module.Module.refuses_foreign_to_make()"),
    ("nn", "nn.tree.Tree.refuses_foreign_in_classes()"),
    (
        "ops.tensors.methods",
        "ops.tensors.elementwise_methods.ElementwiseMethods.refuses_foreign_of()",
    ),
    ("optim", "optim.lr_scheduler.LRScheduler.refuses_foreign_in_classes()"),
    ("optim", "optim.lr_scheduler.LRScheduler.refuses_foreign_to_make()"),
    ("optim", "optim.optimizer.Optimizer.refuses_foreign_in_classes()"),
    ("optim", "optim.optimizer.Optimizer.refuses_foreign_to_make()"),
    ("optim", "optim.swa_utils.AveragedModel.__mro__[].refuses_foreign_to_make()"),
    ("optim", "optim.swa_utils.AveragedModel.refuses_foreign_in_classes()"),
    # sizes as real numbers, which are made by ops; copies and pickles of ops, by name
    ("ops", "graph.op.Op.pickle()"),
    ("ops", "graph.reals.Real.number"),
    ("ops", "graph.reals.Real.ufunc"),
}
OPEN_TO_ALL = {"ops.declaring.thread.thread"}
GROWING = {"add", "append", "appendleft", "extend", "insert", "register", "setdefault", "update"}
WRITING = {"setattr", "__setattr__", "pickle"}  # functions that write into what they are given
WRITING |= {f"refuses_foreign_{what}" for what in ("of", "in_classes", "to_make")}

FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """``graph.types`` for ``staticflow/graph/types.py``."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """What a file says, parsed once for all tests."""
    return ast.parse(path.read_text())


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """The modules of staticflow that a file imports, anywhere in it, and the lines.

    What stands under ``if TYPE_CHECKING`` never runs and does not count.
    """
    tree = tree_of(path)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write imports out in full"
            module = node.module or ""
            # `from staticflow import graph` names modules, `from staticflow.graph.types import X` one
            names = (
                [f"{module}.{a.name}" for a in node.names] if module == "staticflow" else [module]
            )
        else:
            continue
        for name in names:
            if name.startswith("staticflow."):
                yield name.removeprefix("staticflow."), node.lineno


def layer_of(module: str) -> str:
    return module.split(".")[0]


def room_of(module: str) -> str:
    """The room of a module: ``llvm`` of ``codegen.llvm.text``, the root ``""`` of ``codegen.text``."""
    layer, _, rest = module.partition(".")
    name = rest.split(".")[0]
    return name if name in ROOM_RANK[layer] or "." in rest else ""


def complaint(module: str, target: str) -> str | None:
    """What is wrong with ``module`` importing ``target``, if anything is."""
    own, other = layer_of(module), layer_of(target)
    if (module, other) in EXCEPTIONS:
        return None
    if own == other:
        return complaint_of_rooms(own, module, target) if own in ROOMS else None
    if RANK[other] >= RANK[own]:
        return f"{own} comes before {other}"
    if own in MODELS and other not in MODELS_SEE:
        return f"{own} sees only {', '.join(sorted(MODELS_SEE))}"
    return None


def complaint_of_rooms(layer: str, module: str, target: str) -> str | None:
    """What is wrong with ``module`` importing ``target`` of the same layer, which has rooms."""
    own, other = room_of(module), room_of(target)
    if own == other or ROOM_RANK[layer][other] < ROOM_RANK[layer][own]:
        return None
    return f"{layer}.{own or '*'} comes before {layer}.{other or '*'}, or stands beside it"


def test_every_module_belongs_to_a_layer() -> None:
    assert {layer_of(module_of(p)) for p in FILES} <= RANK.keys()


@pytest.mark.parametrize("layer", ROOMS)
def test_every_module_belongs_to_a_room(layer: str) -> None:
    modules = {module_of(p) for p in FILES if layer_of(module_of(p)) == layer}
    assert {room_of(m) for m in modules} == ROOM_RANK[layer].keys()


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_down(path: Path) -> None:
    module = module_of(path)
    wrong = [
        f"{path}:{line}: imports {target}: {why}"
        for target, line in imports_of(path)
        if (why := complaint(module, target)) is not None
    ]
    assert not wrong, "\n".join(wrong)


def test_every_exception_is_needed() -> None:
    used = {(module_of(p), layer_of(t)) for p in FILES for t, _ in imports_of(p)}
    assert EXCEPTIONS.keys() <= used


@pytest.mark.parametrize(
    ("module", "target", "allowed"),
    [
        ("graph.types", "graph.dims", True),
        ("ops.basics.view", "graph.dims", True),
        ("graph.types", "ops.basics.view", False),
        ("eager.tensor", "static.compile", False),
        ("static.compile", "eager.tensor", True),
        ("nn.linear", "eager.tensor", False),
        ("nn.parameter", "eager.tensor", True),
        ("optim.sgd", "nn.init", False),
        ("optim.sgd", "ops.basics.arithmetic", True),
        ("errors", "graph.locs", False),
        ("passes.loops.hoist", "passes.rewrite", True),
        ("passes.rewrite", "passes.loops.hoist", False),
        ("passes.pipeline", "passes.loops.hoist", True),
        ("codegen.kernel", "codegen.primitives", True),
        ("codegen.kernel", "codegen.maths.exp", False),
        ("codegen.maths.exp", "codegen.kernel", True),
        ("codegen.maths.exp", "codegen.maths.log", True),
        ("codegen.maths.exp", "codegen.gemm.tile", False),
        ("codegen.lower.cluster", "codegen.schedule.cpu", False),
        ("codegen.schedule.cpu", "codegen.lower.cluster", True),
        ("codegen.cuda.render", "codegen.llvm.text", False),
    ],
)
def test_the_rule_itself(module: str, target: str, allowed: bool) -> None:
    assert (complaint(module, target) is None) == allowed


def test_imports_inside_functions_are_seen(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "import staticflow.errors\n"
        "from staticflow import ops\n"
        "def late():\n    from staticflow.static.compile import compile\n"
        "if TYPE_CHECKING:\n    from staticflow.tools import main\n"
    )
    assert list(imports_of(source)) == [("errors", 1), ("ops", 2), ("static.compile", 4)]


# -- what is wired -----------------------------------------------------------------------------------


def names_of(tree: ast.AST) -> dict[str, str]:
    """What names of a file stand for in other modules of staticflow: ``ops.declaring.thread.thread``."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}".removeprefix("staticflow.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("staticflow")
        for alias in node.names
    }


def is_module(name: str) -> bool:
    """Whether ``graph.types`` or the like is a module, and no object of one."""
    path = PACKAGE.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def written_by(node: ast.AST) -> Iterator[ast.expr | tuple[ast.expr, str]]:
    """What a statement or a call writes: attributes and entries, or an object and the function
    that writes into it."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from target.elts if isinstance(target, ast.Tuple) else (target,)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
        case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in GROWING:
            yield held, name
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[held, *_]) if (
            name in WRITING
        ):
            yield held, name


def wirings_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The objects of other modules that a file writes into, with the place in them, and the lines."""
    names = names_of(tree)
    for node in ast.walk(tree):
        for written in written_by(node):
            place, way = (
                (written[0], f".{written[1]}()") if isinstance(written, tuple) else (written, "")
            )
            if not way and isinstance(place, ast.Name):
                continue  # the name of this file stands for something else
            path: list[str] = []
            while isinstance(place, ast.Attribute | ast.Subscript):
                path.append(f".{place.attr}" if isinstance(place, ast.Attribute) else "[]")
                place = place.value
            name = names.get(place.id) if isinstance(place, ast.Name) else None
            if name is None or name in OPEN_TO_ALL or (way and is_module(name) and not path):
                continue
            yield name + "".join(reversed(path)) + way, node.lineno


def test_what_is_wired_is_listed() -> None:
    found = {
        (module_of(path), name): f"{path}:{line}"
        for path in FILES
        for name, line in wirings_of(tree_of(path))
    }
    new = {f"{found[key]}: {key[1]}" for key in found.keys() - WIRED}
    assert not new, "a module writes into another:\n" + "\n".join(sorted(new))
    assert found.keys() >= WIRED, f"gone, take it out: {WIRED - found.keys()}"


def test_the_eager_mode_is_installed_once() -> None:
    with pytest.raises(RuntimeError, match="installed already"):
        install(eager)
    assert eager.tensor is staticflow.Tensor
    with pytest.raises(AttributeError):
        eager.wrap = None  # type: ignore[misc]


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("forms.fused = None", "ops.declaring.fused.forms.fused"),
        ("forms.fused, x.y = 1, 2", "ops.declaring.fused.forms.fused"),
        ("def late():\n    forms.table['a'] += 1", "ops.declaring.fused.forms.table[]"),
        ("del forms.fused", "ops.declaring.fused.forms.fused"),
        ("setattr(forms, 'fused', 1)", "ops.declaring.fused.forms.setattr()"),
        ("forms.table.update(a=1)", "ops.declaring.fused.forms.table.update()"),
        ("dims.same = None", "graph.dims.same"),
        ("dims.add(1)", None),
        ("thread.state.recording = True", None),
        ("forms = None", None),
        ("other.fused = forms.fused", None),
    ],
)
def test_writing_is_seen(statement: str, name: str | None) -> None:
    imports = (
        "from staticflow.graph import dims\n"
        "from staticflow.ops.declaring.fused import forms\n"
        "from staticflow.ops.declaring.thread import thread\n"
    )
    found = [name for name, _ in wirings_of(ast.parse(imports + statement))]
    assert found == ([] if name is None else [name])
