"""Recurrent layers: RNN, LSTM and GRU, each one loop for each direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.onnx.reading.rows.indexing import reverse_rows
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.ops.basics.arithmetic import clamp, lt, mul
from staticflow.ops.basics.axes import transpose
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.splitting import split
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.elementwise.activation import elu
from staticflow.ops.elementwise.maths import relu, sigmoid
from staticflow.ops.elementwise.trig import tanh
from staticflow.ops.elementwise.variants import add, sub
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.loops.scan import scan

__all__ = ["RECURRENT"]

Function = Callable[[Any], Any]

_FUNCTIONS: Mapping[str, Callable[[float | None, float | None], Function]] = {
    "affine": lambda a, b: lambda x: add(mul(x, a or 1.0), b or 0.0),
    "elu": lambda a, b: lambda x: elu(x, 1.0 if a is None else a),
    "hardsigmoid": lambda a, b: (
        lambda x: clamp(add(mul(x, 0.2 if a is None else a), 0.5 if b is None else b), 0, 1)
    ),
    "leakyrelu": lambda a, b: lambda x: F.leaky_relu(x, 0.01 if a is None else a),
    "relu": lambda a, b: relu,
    "scaledtanh": lambda a, b: lambda x: mul(tanh(mul(x, 1.0 if b is None else b)), a or 1.0),
    "sigmoid": lambda a, b: sigmoid,
    "softplus": lambda a, b: lambda x: F.softplus(x, threshold=1e9),
    "softsign": lambda a, b: F.softsign,
    "tanh": lambda a, b: tanh,
    "thresholdedrelu": lambda a, b: (
        lambda x: where(lt(x, 1.0 if a is None else a), zeros_like(x), x)
    ),
}
"""Activations by name, of their alpha and beta."""

_WITH = {
    "affine": 2,
    "elu": 1,
    "hardsigmoid": 2,
    "leakyrelu": 1,
    "scaledtanh": 2,
    "thresholdedrelu": 1,
}
"""How many numbers an activation takes: alpha, and beta where there are two."""


def _activations(
    names: Sequence[str] | None, usual: Sequence[str], directions: int,
    alphas: Sequence[float] | None, betas: Sequence[float] | None, clip: float | None,
) -> list[list[Function]]:  # fmt: skip
    """The activations of each direction."""
    named = list(names or list(usual) * directions)
    if len(named) != len(usual) * directions:
        raise ShapeError(
            f"{len(named)} activations are named, and {len(usual) * directions} needed, at "
            f"{format_locs(here())}"
        )
    a, b = iter(alphas or ()), iter(betas or ())
    made: list[Function] = []
    for name in named:
        key = name.lower()
        if key not in _FUNCTIONS:
            raise ShapeError(f"the activation {name!r} is not known, at {format_locs(here())}")
        takes = _WITH.get(key, 0)
        function = _FUNCTIONS[key](
            next(a, None) if takes else None, next(b, None) if takes > 1 else None
        )
        made.append(_clip_input(function, clip))
    step = len(usual)
    return [made[i : i + step] for i in range(0, len(made), step)]


def _clip_input(function: Function, clip: float | None) -> Function:
    return function if clip is None else lambda x: function(clamp(x, -clip, clip))


def _rnn(x: Any, h: Any, state: Any, fs: Sequence[Function], extra: Any) -> Any:
    return (fs[0](add(x, h)),)


def _lstm(x: Any, h: Any, state: Any, fs: Sequence[Function], extra: Any) -> Any:
    f, g, last = fs
    peephole, forget = extra
    i, o, forgets, c = _gates(add(x, h), 4)
    old = state[1]
    if peephole is not None:
        p_i, p_o, p_f = _gates(peephole, 3)
        i, forgets = add(i, mul(p_i, old)), add(forgets, mul(p_f, old))
    i = f(i)
    forgets = sub(1, i) if forget else f(forgets)
    cell = add(mul(forgets, old), mul(i, g(c)))
    o = o if peephole is None else add(o, mul(p_o, cell))
    return mul(f(o), last(cell)), cell


def _gates(x: Any, count: int) -> Any:
    return split(x, [x.shape[-1] // count] * count, -1)


def _gru(x: Any, h: Any, state: Any, fs: Sequence[Function], extra: Any) -> Any:
    f, g = fs
    weight, bias, after = extra
    (x_z, x_r, x_h), (h_z, h_r, h_h) = _gates(x, 3), _gates(h, 3)
    z, r = f(add(x_z, h_z)), f(add(x_r, h_r))
    if after:
        new = g(add(x_h, mul(r, h_h)))
    else:
        own = F.linear(mul(r, state[0]), weight, bias)
        new = g(add(x_h, own))
    return (add(mul(sub(1, z), new), mul(z, state[0])),)


def _run(
    kind: str, step: Callable[..., Any], gates: int, states: int, usual: Sequence[str],
) -> Callable[..., Any]:  # fmt: skip
    def run(
        x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, initial_h: Any = None,
        initial_c: Any = None, peepholes: Any = None, *, activations: Any = None,
        activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
        direction: str = "forward", hidden_size: int | None = None, input_forget: int = 0,
        layout: int = 0, linear_before_reset: int = 0, outputs: int,
    ) -> Any:  # fmt: skip
        ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        if direction not in ways:
            raise ShapeError(f"the direction {direction!r} is not known, at {format_locs(here())}")
        x = transpose(x, 0, 1) if layout else x
        width = r.shape[-1]
        if activations is not None and direction != "bidirectional":
            activations = activations[: len(usual)]  # the standard's default names two
        functions = _activations(
            activations, usual, len(ways[direction]), activation_alpha, activation_beta, clip
        )
        given = [initial_h, initial_c][:states]
        given = [v if v is None or not layout else transpose(v, 0, 1) for v in given]
        alls, ends = [], []
        for d, back in enumerate(ways[direction]):
            begin = [
                full((x.shape[1], width), 0, dtype=x.dtype) if v is None else v[d] for v in given
            ]
            bias = None if b is None else b[d]
            own = None if bias is None else bias[: gates * width]
            at_state = None if bias is None else bias[gates * width :]
            extra: Any = None
            if kind == "LSTM":
                extra = (None if peepholes is None else peepholes[d], bool(input_forget))
            elif kind == "GRU":
                extra = (
                    r[d][2 * width :], None if at_state is None else at_state[2 * width :],
                    bool(linear_before_reset),
                )  # fmt: skip
            rows, last = _direction(
                step, F.linear(x, w[d], own), r[d], at_state, begin, functions[d], extra, back,
                lengths,
            )  # fmt: skip
            alls.append(rows)
            ends.append(last)
        y = stack(alls, 1)
        finals = [stack([e[s] for e in ends], 0) for s in range(states)]
        if layout:
            y = y.permute(2, 0, 1, 3)
            finals = [transpose(v, 0, 1) for v in finals]
        return (y, *finals)[:outputs]

    return run


def _direction(
    step: Callable[..., Any], projected: Any, recurrent: Any, bias: Any, begin: Sequence[Any],
    functions: Sequence[Function], extra: Any, back: bool, lengths: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The rows and the last state of one direction."""
    ragged = lengths is not None
    if ragged and back:  # each sequence from its own end
        projected = reverse_rows(projected, lengths)

    def forward(state: tuple[Any, ...], row_: tuple[Any, Any]) -> Any:
        x, t = row_
        new = tuple(step(x, F.linear(state[0], recurrent, bias), state, functions, extra))
        if not ragged:
            return new, new[0]
        goes_on = unsqueeze(lt(t, cast(lengths, int64)), 1)
        kept = tuple(where(goes_on, n, o) for n, o in zip(new, state, strict=True))
        return kept, where(goes_on, new[0], zeros_like(new[0]))

    times = arange(projected.shape[0])
    end, rows = scan(forward, tuple(begin), (projected, times), reverse=back and not ragged)
    if ragged and back:
        rows = reverse_rows(rows, lengths)
    return rows, end


_LSTM = _run("LSTM", _lstm, 4, 2, ("Sigmoid", "Tanh", "Tanh"))
_GRU = _run("GRU", _gru, 3, 1, ("Sigmoid", "Tanh"))
_RNN = _run("RNN", _rnn, 1, 1, ("Tanh",))

RECURRENT: Mapping[str, Row] = {
    "GRU": row(_GRU, ignored="output_sequence", since=3),
    "LSTM": row(_LSTM, ignored="output_sequence"),
    "RNN": row(_RNN, ignored="output_sequence"),
}
"""Rows by operator."""
