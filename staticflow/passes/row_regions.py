"""Regions of a graph that are computed row by row and are large only inside.

The scores ``h @ w`` of 50,000 words are large, and so is their gradient; what is kept of them are a
few numbers for each row, rows of the width of h, and totals over all rows. Such a region begins
with a product that is reduced along its rows, as a softmax is, and holds all that is as large as
it, what lies between these, and the first values behind them that are small.
"""

from __future__ import annotations

from dataclasses import field

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, param
from staticflow.ops.along.extremes import amax_op, supremum_op
from staticflow.ops.basics.axes import permute_op
from staticflow.ops.basics.view import reshape_op
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.matrices.contract import matmul_op
from staticflow.passes.access import is_inline
from staticflow.passes.row_values import FIXED, TOTAL, Rows, row_elements, rows_after, rows_before

__all__ = ["Region", "find_region"]

_SMALL = 4
"""A row of a value is large if it has at least one of so many parts of the row that it came of."""


@dataclass(eq=False, slots=True)
class Region:
    """Where the ``rows`` of its nodes are, in the order of the graph.

    From outside come ``given`` values, which have rows, too, and ``fixed`` ones. Read outside are
    ``kept`` values, which have rows, and ``totals``, which have none.
    """

    seed: Node
    rows: dict[Node, Rows] = field(default_factory=dict)
    given: dict[Node, Rows] = field(default_factory=dict)
    fixed: dict[Node, None] = field(default_factory=dict)
    kept: list[Node] = field(default_factory=list)
    totals: list[Node] = field(default_factory=list)

    @property
    def count(self) -> Size:
        """How many rows there are."""
        return self.seed.tensor_type.shape[0]

    @property
    def width(self) -> int:
        """The columns of the product that it begins with."""
        width = self.seed.tensor_type.shape[1]
        assert isinstance(width, int)
        return width

    def is_large(self, node: Node, rows: Rows) -> bool:
        """Whether a value with its rows in ``rows`` has rows of about the width of the region."""
        elements = row_elements(node.tensor_type, rows)
        return not isinstance(elements, int) or elements * _SMALL >= self.width


def find_region(graph: Graph, seed: Node) -> Region | None:
    """The region that begins with the product ``seed``; None if there is none, or if something
    large is read outside of it or needs what follows from all rows."""
    region = Region(seed)
    if seed.tensor_type.dtype not in (float32, float64) or not _is_reduced(graph, seed):
        return None
    behind, rows = _rows_behind(graph, seed)
    needed = {n for n, at in rows.items() if at != TOTAL and region.is_large(n, at)}
    if not needed.isdisjoint(graph.outputs):
        return None
    for node in reversed(graph.nodes):
        if node in rows and any(u in needed and u in rows for u in graph.users[node]):
            needed.add(node)
    edge = dict.fromkeys(
        u for n in graph.nodes if n in needed and region.is_large(n, rows[n])
        for u in graph.users[n] if u not in needed
    )  # fmt: skip
    if any(u not in rows or u.tensor_type.dtype.itemsize < 4 for u in edge):
        return None
    inside = needed | set(edge)
    outputs = set(graph.outputs)
    for node in graph.nodes:
        if node in inside:
            region.rows[node] = rows[node]
            if rows[node] == TOTAL:
                region.totals.append(node)
            elif node in outputs or any(u not in inside for u in graph.users[node]):
                region.kept.append(node)
    return region if _bind_operands(region, graph, behind) else None


def _is_reduced(graph: Graph, seed: Node) -> bool:
    """Whether the largest element of each row is asked for of what is done to the elements of a
    product: so begins whatever divides exponentials by their sum."""
    stack, seen = [seed], {seed}
    while stack:
        node = stack.pop()
        for user in graph.users[node]:
            if user.op in (supremum_op, amax_op):
                return True
            elementwise = isinstance(user.op.lowering, Elementwise)
            if (elementwise or user.op in (reshape_op, permute_op)) and user not in seen:
                seen.add(user)
                stack.append(user)
    return False


def _rows_behind(graph: Graph, seed: Node) -> tuple[set[Node], dict[Node, Rows]]:
    """All that follows from ``seed``, and where the rows are of what does so row by row."""
    behind: set[Node] = {seed}
    rows: dict[Node, Rows] = {seed: (0,)}
    for node in graph.nodes:
        if node is seed or behind.isdisjoint(node.args):
            continue
        behind.add(node)
        found = {
            rows_after(node, i, rows[a]) if a in rows and rows[a] != TOTAL else None
            for i, a in enumerate(node.args) if a in behind
        }  # fmt: skip
        at = found.pop() if len(found) == 1 else None
        if at is not None:
            rows[node] = at
    return behind, rows


def _bind_operands(region: Region, graph: Graph, behind: set[Node]) -> bool:
    """Name the operands of a region. What is large and made without it is made in it, and so is
    what is reduced from what is large."""
    position = {n: i for i, n in enumerate(graph.nodes)}
    stack = list(region.rows)
    while stack:
        node = stack.pop()
        wanted = _operand_rows(region, node)
        if wanted is None:
            return False
        for arg, rows in zip(node.args, wanted, strict=True):
            if arg in region.rows:
                if region.rows[arg] != rows:
                    return False
            elif arg in behind:
                return False
            elif rows == FIXED and not is_inline(arg):
                region.fixed[arg] = None
            elif rows == FIXED:  # a kernel reads it where it stands
                region.rows[arg] = FIXED
                stack.append(arg)
            elif _is_made_inside(region, arg, rows):
                region.rows[arg] = rows
                stack.append(arg)
            elif region.given.setdefault(arg, rows) != rows:
                return False
    region.rows = dict(sorted(region.rows.items(), key=lambda entry: position[entry[0]]))
    return True


def _is_made_inside(region: Region, node: Node, rows: Rows) -> bool:
    """Whether an operand, with its rows in ``rows``, would have something large in memory outside,
    and can be made row by row."""
    before = rows_before(node, rows)
    if before is None:
        return False
    made_of = zip(node.args, before, strict=True)
    return region.is_large(node, rows) or any(
        r != FIXED and a.op is not param and region.is_large(a, r) for a, r in made_of
    )


def _operand_rows(region: Region, node: Node) -> tuple[Rows, ...] | None:
    """Where the rows of the operands of a node of a region are."""
    rows = region.rows[node]
    if rows == FIXED:
        return (FIXED,) * len(node.args)
    if rows == TOTAL and node.op is not matmul_op:
        (arg,) = node.args
        return (region.rows[arg],) if arg in region.rows else None
    return rows_before(node, rows)
