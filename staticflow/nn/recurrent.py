"""Recurrent layers: one loop for each layer and direction, in both modes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.locs import format_locs, here, warn
from staticflow.nn import functional as F
from staticflow.nn.cells import GRU_GATES, LSTM_GATES, RNN_GATES, Gates
from staticflow.nn.init import uniform_
from staticflow.nn.module import Module
from staticflow.nn.parameter import new_parameter
from staticflow.nn.utils.rnn import PackedSequence, pack, pad_packed_sequence
from staticflow.ops.basics.autocast import cast_operands
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.joining import cat, stack
from staticflow.ops.declaring.autocast_classes import CLASSES, AutocastClass
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_shape
from staticflow.ops.declaring.thread import Autocast, autocasting, thread
from staticflow.ops.loops.ragged import Falling, FallingOrder
from staticflow.ops.loops.scan import scan

__all__ = ["GRU", "LSTM", "RNN"]


@fused("RecurrentBackward0")
def _steps(
    gates: Gates,
    reverse: bool,
    by: Autocast | None,
    rows: Any,
    lengths: Any,
    recurrent: Any,
    bias: Any,
    shrink: Any,
    *begin: Any,
) -> tuple[Any, ...]:
    """The outputs and the last state, from the projections of the inputs; ``by`` says how those of
    the state are cast for. With ``lengths`` the sequences are in falling order of them."""

    def step(state: tuple[Any, ...], x: Any) -> tuple[tuple[Any, ...], Any]:
        with autocasting(by):
            h = F.linear(state[0], recurrent, bias)
        new = gates.step(state, x, h)
        if shrink is not None:
            new = (F.linear(new[0], shrink), *new[1:])
        return new, new[0]

    if lengths is None:
        end, outputs = scan(step, begin, rows, reverse=reverse)
    else:
        loop = Falling(step, lengths)
        end, outputs = scan(loop.step, loop.init(begin), loop.xs(rows), reverse=reverse)
    return (outputs, *end)


class _Recurrent(Module):
    """Layers of one kind, in one direction or both, with PyTorch's parameters: for each layer
    ``weight_ih_l0`` (gates * hidden, inputs), ``weight_hh_l0`` (gates * hidden, hidden) and, with
    ``bias``, ``bias_ih_l0`` and ``bias_hh_l0`` (gates * hidden); ``_reverse`` behind the names of
    the other direction. All start uniform on +-1/sqrt(hidden).
    """

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    autocast: ClassVar[AutocastClass] = CLASSES["RNN"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        if proj_size and (self.states == 1 or not 0 < proj_size < hidden_size):
            raise ArgumentError(
                f"{kind}: proj_size is for LSTMs and below their hidden size, not {proj_size}, "
                f"at {format_locs(here())}"
            )
        if min(input_size, hidden_size, num_layers) < 1:
            raise ArgumentError(f"{kind}: sizes and layers are 1 or more, at {format_locs(here())}")
        if not 0 <= dropout <= 1:
            raise ArgumentError(
                f"{kind}: the dropout lies in [0, 1], and {dropout} does not"
                f", at {format_locs(here())}"
            )
        if dropout and num_layers == 1:
            warn(f"{kind}: dropout={dropout} is between layers, and there is one")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        outputs = proj_size or hidden_size
        rows = self.gates * hidden_size
        bound = 1 / math.sqrt(hidden_size)
        for layer in range(num_layers):
            inputs = outputs * len(self._directions) if layer else input_size
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (rows, inputs),
                "weight_hh": (rows, outputs),
            }
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for direction in self._directions:
                for name, shape in shapes.items():
                    made = uniform_(
                        new_parameter(*shape, device=device, dtype=dtype), -bound, bound
                    )
                    self.register_parameter(f"{name}_l{layer}{direction}", made)

    @property
    def _flat_weights_names(self) -> list[str]:
        """The names of all weights and biases, layer by layer, under the name that PyTorch's
        users know."""
        return list(self._parameters)

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    @property
    def _gates(self) -> Gates:
        """How one step goes."""
        raise NotImplementedError

    def flatten_parameters(self) -> None:
        """Does nothing: there is no other layout to go to."""

    def _asks_training(self) -> bool:
        return bool(self.dropout)

    # -- running ------------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None, lengths: Any = None) -> tuple[Any, Any]:
        """``input`` (T, N, input_size), with ``batch_first`` (N, T, input_size), or without a batch
        (T, input_size); ``hx`` the first state (layers * directions, N, hidden), zeros by default,
        for an LSTM a pair of them.

        Returns the outputs of the last layer, (T, N, directions * hidden) or laid out as the input,
        and the last state of each layer and direction, as ``hx``.

        ``lengths`` (N,) integers: beyond its length a sequence keeps its state and its output is 0.
        A `PackedSequence` as input has its lengths in itself, and the outputs are one, too.
        """
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        batched = self._check(input, lengths)
        if not batched:
            input = input.unsqueeze(1)
        elif self.batch_first:
            input = input.transpose(0, 1)
        first = self._first_states(input, hx, batched)
        order = None if lengths is None else FallingOrder(lengths, input)
        if order is not None:
            input, lengths = order.put(input, 1, "the input"), order.lengths
            first = order.put(first, 1, "the first state")
        last: list[tuple[Any, ...]] = []
        for layer in range(self.num_layers):
            if layer:
                input = F.dropout(input, self.dropout, self.training) if self.dropout else input
            outputs = []
            for direction in self._directions:
                begin = tuple(s[len(last)] for s in first)
                end, output = self._run(input, begin, lengths, f"_l{layer}{direction}")
                last.append(end)
                outputs.append(output)
            input = cat(outputs, 2) if self.bidirectional else outputs[0]
        ends = tuple(stack(list(parts), 0) for parts in zip(*last, strict=True))
        if order is not None:
            input, ends = order.put_back((input, ends), 1)
        if not batched:
            input, ends = input.squeeze(1), tuple(e.squeeze(1) for e in ends)
        elif self.batch_first:
            input = input.transpose(0, 1)
        return input, ends if self.states > 1 else ends[0]

    def _run_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        rows, lengths = pad_packed_sequence(input, self.batch_first)
        outputs, ends = self(rows, hx, lengths.to(rows.device))
        steps = outputs.transpose(0, 1) if self.batch_first else outputs
        order = input.sorted_indices
        return pack(steps, lengths.numpy(), None if order is None else order.numpy()), ends

    def _run(
        self, input: Any, begin: tuple[Any, ...], lengths: Any, suffix: str
    ) -> tuple[tuple[Any, ...], Any]:
        """One layer in one direction: the last state and the outputs."""
        weight, recurrent = (getattr(self, n + suffix) for n in ("weight_ih", "weight_hh"))
        biases = [getattr(self, n + suffix) if self.bias else None for n in ("bias_ih", "bias_hh")]
        to_x, to_h = self._gates.biases(*biases)
        shrink = getattr(self, "weight_hr" + suffix) if self.proj_size else None
        by = thread.state.autocast
        if by is not None and self.autocast == "lower":
            operands = [recurrent, to_h, shrink, *begin]
            recurrent, to_h, shrink, *states = cast_operands("lower", operands, by)
            begin = tuple(states)
            by = None  # all is of its dtype
        outputs, *end = _steps(
            self._gates, suffix.endswith("_reverse"), by, F.linear(input, weight, to_x), lengths,
            recurrent, to_h, shrink, *begin,
        )  # fmt: skip
        return tuple(end), outputs

    # -- arguments ----------------------------------------------------------------------------

    def _check(self, input: Any, lengths: Any) -> bool:
        """Whether there is a batch."""
        kind = type(self).__name__
        if input.ndim not in (2, 3) or not same_size(input.shape[-1], self.input_size):
            raise ShapeError(
                f"{kind}: takes (T, N, {self.input_size}) or (T, {self.input_size}), not an input "
                f"of shape {list(input.shape)}, at {format_locs(here())}"
            )
        if lengths is not None and (input.ndim != 3 or lengths.ndim != 1):
            raise ShapeError(
                f"{kind}: lengths are (N,) for an input (T, N, {self.input_size}), not of shape "
                f"{list(lengths.shape)} for {list(input.shape)}, at {format_locs(here())}"
            )
        return bool(input.ndim == 3)

    def _first_states(self, input: Any, hx: Any, batched: bool) -> tuple[Any, ...]:
        count = self.num_layers * len(self._directions)
        batch = input.shape[1]
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]
        if hx is None:
            return tuple(
                full.beside(input, shape=(count, batch, width), value=0.0, dtype=input.dtype)
                for width in widths
            )
        given = hx if self.states > 1 else (hx,)
        if not isinstance(given, tuple | list) or len(given) != self.states:
            raise ShapeError(
                f"{type(self).__name__}: the first state is {self.states} tensors, (h, c), of "
                f"shape ({count}, N, {self.hidden_size}) each, at {format_locs(here())}"
            )
        first = f"{type(self).__name__}: the first state"
        leading = (count, batch) if batched else (count,)
        states = [
            require_shape(state, (*leading, width), first)
            for state, width in zip(given, widths, strict=True)
        ]
        return tuple(states) if batched else tuple(s.unsqueeze(1) for s in states)

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
            "bidirectional": False,
        }  # fmt: skip
        parts += [f"{n}={getattr(self, n)}" for n, v in defaults.items() if getattr(self, n) != v]
        return ", ".join(parts)


class RNN(_Recurrent):
    """``h = tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)``, or relu by ``nonlinearity``.

    >>> import staticflow as sf
    >>> output, last = RNN(3, 4, num_layers=2)(sf.ones(5, 2, 3))
    >>> output.shape, last.shape
    ((5, 2, 4), (2, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in RNN_GATES:
            raise ArgumentError(
                f"RNN: the nonlinearity is tanh or relu, not {nonlinearity!r}"
                f", at {format_locs(here())}"
            )
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity

    @property
    def _gates(self) -> Gates:
        return RNN_GATES[self.nonlinearity]


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with the gates i, f, g, o::

        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)

    each of the form ``x @ W_ih.T + b_ih + h @ W_hh.T + b_hh``. The state is the pair (h, c).

    >>> import staticflow as sf
    >>> output, (h, c) = LSTM(3, 4, bidirectional=True)(sf.ones(5, 2, 3))
    >>> output.shape, h.shape, c.shape
    ((5, 2, 8), (2, 2, 4), (2, 2, 4))

    With ``proj_size`` h, which is also the output, is that wide: ``weight_hr_l0`` (proj_size,
    hidden) times what it would be (Sak et al. 2014, arXiv:1402.1128).
    """

    gates, states = 4, 2
    autocast = CLASSES["LSTM"]
    _gates = LSTM_GATES


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al. 2014), with the gates r, z, n::

        n = tanh(x @ W_in.T + b_in + sigmoid(r) * (h @ W_hn.T + b_hn))
        h = (1 - sigmoid(z)) * n + sigmoid(z) * h

    where r and z are of the form ``x @ W_ih.T + b_ih + h @ W_hh.T + b_hh``.
    """

    gates = 3
    autocast = CLASSES["GRU"]
    _gates = GRU_GATES
