"""Teams of threads in CUDA C: who a thread is, where a team waits, and how it combines values.

A team is a warp or a whole block. Values go through shuffles within a warp and through a shared
array of one element a warp between them, in the order of `combine_threads`.
"""

from __future__ import annotations

from staticflow.codegen.cuda.values import apply, c_type
from staticflow.codegen.kernel import TEAMS, WARP
from staticflow.codegen.team_order import combine_threads
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, bool_

__all__ = ["BLOCK", "Team", "combine_partial", "scan_partial"]

BLOCK = TEAMS["blocks"]
"""Threads of a block, in every launch of more than one thread."""

_ALL = "0xffffffffu"


@dataclass(frozen=True, slots=True)
class Team:
    """Expressions and statements of CUDA C: a team's ``number`` and their ``count``, a thread's
    ``rank`` in its team of ``threads``; ``wait`` lets each see what the others have stored, and so
    does ``any``, which tells all whether a bool is true in any. (A vote of a warp alone orders no
    memory, as that of a block does.)"""

    threads: int
    number: str
    count: str
    rank: str
    wait: str
    any: str

    @staticmethod
    def of(kind: str) -> Team | None:
        """The team that runs an iteration of a loop of a kind, None if it is one thread."""
        return _TEAMS.get(kind)


_TEAMS = {
    "warps": Team(
        WARP, f"(sf_thread() / {WARP})", f"(sf_threads() / {WARP})", f"(threadIdx.x % {WARP}u)",
        "__syncwarp();", f"(__syncwarp(), __any_sync({_ALL}, {{}}))",
    ),
    "blocks": Team(
        BLOCK, "(long long)blockIdx.x", "gridDim.x", "threadIdx.x",
        "__syncthreads();", "__syncthreads_or({})",
    ),
}  # fmt: skip


def combine_partial(
    team: Team, op: str, dtype: DType, name: str
) -> tuple[list[str], dict[str, str]]:
    """The statements that combine the variable ``name`` of all threads of a team, so that it is the
    same in each of them, and the declarations of the shared arrays that they use, by name."""
    kind = c_type(dtype)
    lines = [
        f"for (int d = {WARP // 2}; d > 0; d /= 2) {{",
        f"  const {kind} other = {_value_in('_down', name, 'd', dtype)};",
        f"  {name} = {apply(op, [name, 'other'], dtype)};",
        "}",
    ]
    warps = team.threads // WARP
    if warps == 1:
        lines.append(f"{name} = {_value_in('', name, '0', dtype)};")
        return lines, {}
    array = _array_of(dtype)
    lines += _show_to_team(team, 0, name, array)
    first = [f"{kind} w{w} = {array}[{w}];" for w in range(warps)]
    steps: list[str] = []

    def combine(a: str, b: str) -> str:
        steps.append(f"{a} = {apply(op, [a, b], dtype)};")
        return a

    total = combine_threads([f"w{w}" for w in range(warps)], combine)
    lines += ["{", f"  {' '.join(first)}", *(f"  {s}" for s in steps), f"  {name} = {total};", "}"]
    return lines, {array: f"  SF_SHARED({kind}, {array}, {warps});"}


def scan_partial(
    team: Team, op: str, dtype: DType, name: str, total: str
) -> tuple[list[str], dict[str, str]]:
    """The statements that make the variable ``name`` of each thread what ``total`` and the threads
    up to it have together, in the order of `scan_threads`, and ``total`` that of all; and the
    declarations of the shared arrays that they use, by name."""
    kind = c_type(dtype)

    def update(a: str, b: str, to: str) -> str:
        return f"{to} = {apply(op, [a, b], dtype)};"

    lines = [
        f"for (int d = 1; d < {WARP}; d *= 2) {{",
        f"  const {kind} other = {_value_in('_up', name, 'd', dtype)};",
        f"  if (threadIdx.x % {WARP}u >= d) {update('other', name, name)}",
        "}",
    ]
    warps = team.threads // WARP
    if warps == 1:
        lines += [
            "{",
            f"  const {kind} all = {_value_in('', name, f'{WARP - 1}', dtype)};",
            f"  {update(total, name, name)}",
            f"  {update(total, 'all', total)}",
            "}",
        ]
        return lines, {}
    array = _array_of(dtype)
    lines += _show_to_team(team, WARP - 1, name, array)
    lines += [
        "{",
        f"  {kind} all = {array}[0];",
        f"  for (int w = 1; w < {warps}; w++) {{",
        f"    const {kind} next = {array}[w];",
        f"    if (threadIdx.x / {WARP}u == w) {update('all', name, name)}",
        f"    {update('all', 'next', 'all')}",
        "  }",
        f"  {update(total, name, name)}",
        f"  {update(total, 'all', total)}",
        "}",
    ]
    return lines, {array: f"  SF_SHARED({kind}, {array}, {warps});"}


def _value_in(way: str, name: str, lane: str, dtype: DType) -> str:
    """What the variable ``name`` is in another lane of the warp: number ``lane``, or, as ``way``
    says, so many ``_up`` or ``_down`` from here."""
    kind = c_type(dtype)
    shuffled = "int" if dtype is bool_ or dtype.bits < 32 else kind
    return f"({kind})__shfl{way}_sync({_ALL}, ({shuffled}){name}, {lane})"


def _array_of(dtype: DType) -> str:
    """The name of the shared array that has an element of each warp."""
    return f"of_warps_{dtype.short}"


def _show_to_team(team: Team, lane: int, name: str, array: str) -> list[str]:
    """The statements that give all threads what ``name`` is in one lane of each warp."""
    own = f"{array}[threadIdx.x / {WARP}u] = {name};"
    return [team.wait, f"if (threadIdx.x % {WARP}u == {lane}) {own}", team.wait]
