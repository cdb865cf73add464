"""Records of comparisons that were never made: every number is made up, to see how a page shows it."""

from __future__ import annotations

import dataclasses
import math

from staticflow.comparison.record import (
    Ablation,
    Agreement,
    BreakEven,
    Buffer,
    Comparison,
    Curve,
    Difference,
    Graphs,
    Kernel,
    Machine,
    Memory,
    ModeCosts,
    Model,
    Peer,
    Roofline,
    Spread,
    Sweep,
    SweepPoint,
    WinModel,
)

HOSTILE = "<script>alert('x')</script>&\"'`$\\frac{1}{2}$\x07 模型 🙂 "


def near(median: float, share: float = 0.03) -> Spread:
    return Spread(median, median * (1 - share), median * (1 + share), 200)


def difference(value: float = 2.1e-7, has_nan: tuple[str, ...] = ()) -> Difference:
    return Difference(value, value / 2, value * 1.4, 1e-5, "fc1.weight", has_nan)


def curve(eager: float, static: float, steps: float, ratio: float) -> Curve:
    at = tuple(dict.fromkeys(round(10 ** (i / 8)) for i in range(41)))
    return Curve(
        at,
        tuple(eager + n * steps for n in at),
        tuple(static + n * steps / ratio for n in at),
    )


def timeline(length: int, peak: int) -> tuple[int, ...]:
    rise = [round(peak * math.sin(math.pi * (i + 1) / (length + 1)) ** 0.7) for i in range(length)]
    return tuple(b + (i % 5) * peak // 60 for i, b in enumerate(rise))


def drawing(kind: str, count: int = 12, label: str = "mul") -> dict[str, object]:
    """A drawing of so many nodes, in the form of `staticflow.drawing.model`."""
    nodes = [
        {
            "id": i, "kind": "op" if i > 1 else "input", "label": label, "name": f"%{i}",
            "type": "f32[32, 784]", "key": i, "lines": [f"net.py:{i}"],
        }
        for i in range(count)
    ]  # fmt: skip
    edges = [
        {"source": j, "target": i, "type": "f32[32, 784]"}
        for i in range(2, count)
        for j in {i - 1, i // 2}
    ]
    return {
        "schema": "staticflow.drawing/1", "title": "step", "kind": kind, "nodes": nodes,
        "edges": edges,
    }  # fmt: skip


MODEL = Model(
    "MadeUpNet", "made_up.py:MadeUpNet", 61_706, ("x: f32[32, 1, 28, 28]", "y: i64[32]"),
    "cross_entropy", "SGD(lr=0.1, momentum=0.9)", 2000, 0, "float32",
)  # fmt: skip
MACHINE = Machine(
    "A processor that is made up, 3.0 GHz", 2, "Linux 6.1, CPython 3.11.9",
    {"staticflow": "0.1.0", "numpy": "2.4.6", "llvmlite": "0.46.0"}, 1.12e11, 1.9e10,
)  # fmt: skip
EAGER = ModeCosts(
    {"import": 0.31, "model": 0.012, "first_step": 0.041, "warm_up": 0.48},
    {"import": 0.31, "model": 0.012, "first_step": 0.032, "warm_up": 0.06},
    near(1.31e-3, 0.05),
    tuple(2.3 * math.exp(-i / 900) + 0.02 * math.sin(i / 7) for i in range(400)),
    Roofline(46, 46, 9_400_000, 21_000_000, 0.19, 0.42),
)
STATIC = ModeCosts(
    {"import": 0.31, "model": 0.012, "trace": 0.06, "optimise": 0.38, "generate": 0.92,
     "load": 0.004, "first_step": 0.002, "warm_up": 0.0},
    {"import": 0.31, "model": 0.012, "trace": 0.06, "optimise": 0.38, "generate": 0.0,
     "load": 0.021, "first_step": 0.002, "warm_up": 0.0},
    near(0.42e-3),
    EAGER.losses,
    Roofline(17, 17, 3_100_000, 21_000_000, 0.58, 0.06),
    {"fold": 0.02, "rewrite": 0.16, "fuse": 0.11, "share_products": 0.004, "merge": 0.086},
)  # fmt: skip
KERNELS = tuple(
    Kernel(f"matmul_relu_{i}", 1 + i % 3, 40_000 * (i + 1), 900_000 * (17 - i), 4e-5 / (i + 1),
           f"made_up.py:{12 + i}")
    for i in range(17)
)  # fmt: skip
SWEEP = Sweep(
    tuple(
        SweepPoint(
            {"batch": batch, "width": width, "depth": 4},
            40e-6 + 46 * 4e-6 + batch * width * 2e-9,
            6e-6 + 46 * 0.4e-6 + batch * width * 2.4e-9,
            46,
            batch * width * 2000,
        )
        for batch in (1, 8, 64, 512)
        for width in (16, 64, 256, 1024)
    ),
    WinModel(
        {"per_step": 4e-5, "per_operation": 4e-6, "per_flop": 1e-12},
        {"per_step": 6e-6, "per_operation": 4e-7, "per_flop": 1.2e-12},
        {"eager": 0.06, "static": 0.09},
    ),
    1,
)
FULL = Comparison(
    model=MODEL,
    machine=MACHINE,
    eager=EAGER,
    static=STATIC,
    refused=None,
    agreement=Agreement(
        True, "Static and eager agree within what rounding explains.", difference(),
        difference(9e-7), difference(1.3e-7), difference(0.0), "passed: 24 directions",
        {"static": True, "eager": True}, {"static": True, "eager": True},
        ("log(softmax) is stabilised in a graph",),
    ),
    break_even={"cold": BreakEven(1052, 990, 1120), "warm": BreakEven(403, 371, 440)},
    curve={
        "cold": curve(0.36, 1.69, 1.31e-3, 3.12), "warm": curve(0.36, 0.79, 1.31e-3, 3.12)
    },
    memory={
        "eager": Memory(None, 3_900_000, timeline(46, 3_900_000), (
            Buffer("conv1", "f32[32, 6, 24, 24]", 442_368, 3, 41, "made_up.py:12"),
            Buffer("conv2", "f32[32, 16, 8, 8]", 131_072, 9, 36, "made_up.py:13"),
        )),
        "static": Memory(1_250_000, 1_250_000, timeline(17, 1_250_000), (
            Buffer("conv1, relu", "f32[32, 6, 24, 24]", 442_368, 0, 12, "made_up.py:12, 15"),
            Buffer("conv2, relu", "f32[32, 16, 8, 8]", 131_072, 2, 10, "made_up.py:13, 15"),
        )),
    },
    kernels=KERNELS,
    compilations={
        "eager": {"batch=16": 21, "batch=32": 21, "batch=33": 22},
        "static": {"batch=16": 1, "batch=32": 1, "batch=33": 1},
    },
    ablation=tuple(
        Ablation(name, near(0.42e-3 * ratio), ratio, round(1_250_000 * ratio), 17 + i, name != "merge")
        for i, (name, ratio) in enumerate(
            {"fuse": 2.41, "rewrite": 1.22, "recompute": 1.01, "merge": 0.93, "fold": 1.0}.items()
        )
    ),
    no_effect=("hoist", "prune_loops"),
    sweep=SWEEP,
    peers=(
        Peer("PyTorch, eager", "2.13.0", near(1.02e-3), 0.021, 3e-7),
        Peer("PyTorch, torch.compile", "2.13.0", near(0.81e-3), 14.2, 3e-7),
        Peer("JAX", "0.9.1", near(0.66e-3, 0.1), 0.83, 4e-7, near(1.57)),
    ),
    graphs=Graphs(drawing("tape"), drawing("graph", 7)),
    notes=("Steps of both modes took turns.", "These numbers are made up."),
)  # fmt: skip

NOTHING = Comparison(
    model=MODEL, machine=Machine("unknown", 1, "unknown", {}),
    eager=ModeCosts({}, {}, None, ()), static=None, refused=None, agreement=None, break_even={},
    curve={}, memory={}, kernels=(), compilations={}, unfinished="warming up",
)  # fmt: skip

REFUSED = dataclasses.replace(
    FULL, static=None, agreement=None, break_even={}, curve={}, kernels=(), ablation=(), no_effect=(), sweep=None,
    memory={"eager": FULL.memory["eager"]}, graphs=Graphs(FULL.graphs.eager, None),
    compilations={"eager": FULL.compilations["eager"]},
    refused="made_up.py:14: if x.sum() > 0: asks a symbol for its value; write sf.cond(x.sum() > 0, ...)",
)  # fmt: skip

_NAN = difference(math.nan, ("static", "eager"))
NAN = dataclasses.replace(
    FULL, ablation=(), sweep=None, graphs=Graphs(None, None),
    eager=dataclasses.replace(EAGER, losses=(2.3, 5.0, math.inf, math.nan, math.nan)),
    static=dataclasses.replace(STATIC, losses=(2.3, 5.0, math.inf, math.nan, math.nan)),
    agreement=Agreement(
        False, "Both modes have a NaN from step 4 on: nothing can be said of the rest.",
        _NAN, _NAN, _NAN, _NAN, "not run: the loss is NaN", {"static": True, "eager": True}, {},
    ),
    break_even={"cold": BreakEven(None, None, None), "warm": BreakEven(1, None, None)},
)  # fmt: skip

MANY = dataclasses.replace(
    FULL, ablation=(), sweep=None, peers=(), curve={}, notes=("a note",) * 60,
    eager=dataclasses.replace(EAGER, losses=tuple(1 / (i + 1) for i in range(60_000))),
    static=dataclasses.replace(STATIC, losses=()),
    kernels=tuple(
        Kernel(f"kernel_{i}_" + "of_a_long_name_" * 6, 1, i * 4096, i * 1000,
               1e-6 * (i % 37) if i % 9 else None, f"a/long/path/to/made_up.py:{i}")
        for i in range(500)
    ),
    graphs=Graphs(drawing("tape", 5000), drawing("graph", 5000)),
    memory={m: dataclasses.replace(v, timeline=timeline(40_000, v.measured))
            for m, v in FULL.memory.items()},
)  # fmt: skip


def hostile(value: object) -> object:
    """The same record, with every text of a user made as bad as can be."""
    if isinstance(value, str):
        return HOSTILE + value
    if isinstance(value, tuple):
        return tuple(map(hostile, value))
    if isinstance(value, dict):
        return {key: hostile(v) for key, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value)]
        return dataclasses.replace(value, **{n: hostile(getattr(value, n)) for n in names})
    return value


AWKWARD = dataclasses.replace(
    hostile(FULL),  # type: ignore[type-var]
    refused=None, unfinished=HOSTILE, curve={}, sweep=None,
    graphs=Graphs(drawing("tape", label=HOSTILE), drawing("graph", label=HOSTILE)),
    compilations={m: {HOSTILE + s: n for s, n in c.items()} for m, c in FULL.compilations.items()},
)  # fmt: skip

RECORDS: dict[str, Comparison] = {
    "full": FULL, "refused": REFUSED, "nan": NAN, "nothing": NOTHING, "many": MANY,
    "awkward": AWKWARD,
}  # fmt: skip
