"""How the product of large matrices is cut into tasks, and these into blocks: pure functions over
sizes."""

from __future__ import annotations

from collections.abc import Callable

from staticflow.codegen.gemm.plan import main_rows, main_width
from staticflow.codegen.gemm.tile import Product
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min, is_provably_ge

__all__ = [
    "ENOUGH",
    "GROUPS",
    "Cut",
    "cut_of",
    "is_by_columns",
    "parts_of",
    "stripe_of",
    "tasks_each",
]

_ROWS = 1080  # in a task, at most
_STRIPE = 512  # rows of A that are copied at a time, at most


@dataclass(frozen=True, slots=True)
class _Way:
    """The panels in a chunk, at most; bytes of a column of B in a block; and tasks for each thread,
    if there are several. A chunk of a block is a part of a usual second-level cache."""

    panels: int
    column: int
    tasks: int


_BY_ROWS = _Way(panels=2, column=4096, tasks=8)
# A copy of A and the sums of several blocks have to be in the cache, too, and more panels make up
# for that copy.
_BY_COLUMNS = _Way(panels=22, column=704, tasks=2)

_CHUNKS = 4  # rather than fewer wide ones
_ROWS_PER_COPY = 192  # rows of A that make up for another copy of B
_PANELS_PER_COPY = 2  # panels of B that make up for another copy of A
ENOUGH = 16  # tasks for all threads
_DEEP = 4096  # elements of the inner dimension that make up for sums of their own
GROUPS = 256  # of tasks, at most, which threads share: a thread does one without a look at others


@dataclass(frozen=True, slots=True)
class Cut:
    """How a product is cut into ``down * across`` tasks of ``rows`` rows and ``chunk`` columns, or
    fewer, and these into ``blocks`` of ``depth`` elements of the inner dimension. At most there are
    ``most_rows``, ``width`` columns and ``most_depth``. Threads share the tasks in ``groups``; a
    ``tile`` is so many rows of A, and so is a ``stripe``, if A is copied."""

    rows: Size
    most_rows: Size
    down: Size
    chunk: Size
    width: Size
    across: Size
    depth: Size
    most_depth: Size
    blocks: Size
    groups: Size
    tile: int
    stripe: int | None

    @property
    def copies(self) -> Size:
        """Elements of the copies of a chunk of B and of a stripe of A."""
        return self.most_depth * (self.width + (self.stripe or 0))

    @property
    def workspace(self) -> Size:
        """Elements of the workspace of a worker: the copies and the sums."""
        return self.copies + self.most_rows * self.width


def is_by_columns(p: Product) -> bool:
    """Whether A lies by columns, so that it is copied as well."""
    return p.a.row == 1 and p.a.col != 1


def tasks_each(p: Product) -> int:
    """Tasks for each thread, if there are several."""
    return _way(p).tasks


def _way(p: Product) -> _Way:
    return _BY_COLUMNS if is_by_columns(p) else _BY_ROWS


def stripe_of(p: Product, most_rows: Size) -> int | None:
    """Rows of A, of ``most_rows``, that are copied at a time; None if it is read where it is."""
    if not is_by_columns(p):
        return None
    tile = main_rows(p.target)
    stripe = _STRIPE // tile * tile
    return min(stripe, most_rows) if isinstance(most_rows, int) else stripe


def parts_of(p: Product) -> Size:
    """Parts of the inner dimension whose sums are made apart, so that threads have tasks where A
    and B have few rows and columns: by the sizes alone, so that results do not depend on threads.
    """
    if not (is_by_columns(p) and isinstance(p.m, int) and isinstance(p.n, int)):
        return 1
    across = p.n // (_PANELS_PER_COPY * main_width(p.target) * p.lanes)
    tasks = max(p.m // _ROWS_PER_COPY, 1) * max(across, 1)
    most = ENOUGH // tasks
    return dim_max(dim_min(most, p.depth // _DEEP), 1) if most > 1 else 1


def cut_of(
    p: Product, enough: Size, name: Callable[[str, Size, Size], Size] = lambda _, size, most: size
) -> Cut:
    """The cut into ``enough`` tasks, if that can pay; what others are made of is given a ``name``:
    written out, each would be computed again and again."""
    tile, way, by_columns = main_rows(p.target), _way(p), is_by_columns(p)
    panel = main_width(p.target) * p.lanes
    chunk: Size = way.panels * panel
    if not by_columns:
        chunk = dim_max(1, dim_min(way.panels, p.n // (_CHUNKS * panel))) * panel
    if isinstance(p.n, int) and is_provably_ge(3 * chunk, 2 * p.n):  # no small second one
        chunk = -(-p.n // p.lanes) * p.lanes
    chunk = name("chunk", chunk, way.panels * panel)
    width = chunk if isinstance(chunk, int) else way.panels * panel
    depth = way.column // p.dtype.itemsize
    blocks = dim_max(1, ceil_div(p.depth, depth))
    if isinstance(p.depth, int):
        depth = -(-p.depth // -(-p.depth // depth))
    most = _ROWS // tile * tile
    # Equal parts, and so many that threads have tasks to share: of the rows, then of the columns.
    across = dim_max(ceil_div(p.n, chunk), 1)
    across = name("across", across, across)
    parts = dim_min(ceil_div(enough, across), p.m // _ROWS_PER_COPY)
    down = dim_max(dim_max(ceil_div(p.m, most), parts), 1)
    down = name("down", down, down)
    if by_columns and not is_provably_ge(1, p.n // (_PANELS_PER_COPY * panel)):
        across = dim_max(across, dim_min(enough // (2 * down), p.n // (_PANELS_PER_COPY * panel)))
        chunk = dim_min(width, ceil_div(p.n, across * panel) * panel)
    most_rows = dim_min(most, ceil_div(p.m, tile) * tile)
    return Cut(
        rows=ceil_div(p.m, down * tile) * tile,
        most_rows=most_rows,
        down=down,
        chunk=chunk,
        width=width,
        across=across,
        depth=depth,
        most_depth=dim_min(depth, p.depth),
        blocks=blocks,
        groups=dim_max(1, dim_min(GROUPS, down * across)),
        tile=tile,
        stripe=stripe_of(p, most_rows),
    )
