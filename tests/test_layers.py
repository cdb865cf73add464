"""A layer imports only from layers before it, and in a layer a room only from rooms before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import staticflow

PACKAGE = Path(staticflow.__file__).parent

LAYERS = (
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
    ("serialization",),
    ("static",),
    ("autograd",),
    ("utils", "testing"),
    ("nn", "optim"),
    ("func",),
    ("tools",),
    ("__init__", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# The rooms of a layer: "" is the files at its root, but for those that are named. What stands in
# one row keeps apart.
ROOMS = {
    "passes": (("",), ("loops",), ("pipeline",)),
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
MODELS_SEE = {"ops", "pytree", "graph", "errors"}
EXCEPTIONS = {
    ("nn.parameter", "eager"): "parameters are eager tensors",
    ("optim.swa_utils", "nn"): "an averaged model is a module",
}

FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """``graph.types`` for ``staticflow/graph/types.py``."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """The modules of staticflow that a file imports, anywhere in it, and the lines.

    What stands under ``if TYPE_CHECKING`` never runs and does not count.
    """
    tree = ast.parse(path.read_text())
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
    modules = {module_of(p) for p in FILES if layer_of(module_of(p)) == layer} - {layer}
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
        ("ops.view", "graph.dims", True),
        ("graph.types", "ops.view", False),
        ("eager.tensor", "static.compile", False),
        ("static.compile", "eager.tensor", True),
        ("nn.linear", "eager.tensor", False),
        ("nn.parameter", "eager.tensor", True),
        ("optim.sgd", "nn.init", False),
        ("optim.sgd", "ops.arithmetic", True),
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
