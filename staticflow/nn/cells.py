"""One step of a recurrent layer, and the layers that do one step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.nn.init import uniform_
from staticflow.nn.module import Module
from staticflow.nn.parameter import new_parameter
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.splitting import split
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.fused import fused

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]

State = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Gates:
    """``step(state, x, h)`` is the new state, from the projections of the input and of the state's
    ``h``. The bias of the state's is added to its projection, or, ``at_input``, to the input's. The
    ``name`` is that under which `GATES` has it."""

    name: str
    step: Callable[[State, Any, Any], State]
    at_input: bool = True

    def biases(self, own: Any, bias: Any) -> tuple[Any, Any]:
        """What is added to the projections of the input and of the state, of ``bias_ih`` and
        ``bias_hh``, which may be None."""
        return (own, bias) if own is None or not self.at_input else (own + bias, None)


def _lstm(state: State, x: Any, h: Any) -> State:
    i, f, g, o = split(x + h, [state[1].shape[-1]] * 4, -1)
    c = F.sigmoid(f) * state[1] + F.sigmoid(i) * F.tanh(g)
    return F.sigmoid(o) * F.tanh(c), c


def _gru(state: State, x: Any, h: Any) -> State:
    width = state[0].shape[-1]
    (x_r, x_z, x_n), (h_r, h_z, h_n) = split(x, [width] * 3, -1), split(h, [width] * 3, -1)
    new = F.tanh(x_n + F.sigmoid(x_r + h_r) * h_n)
    return (new + F.sigmoid(x_z + h_z) * (state[0] - new),)


LSTM_GATES = Gates("lstm", _lstm)
GRU_GATES = Gates("gru", _gru, at_input=False)  # the reset gate scales the bias, too
RNN_GATES = {
    "tanh": Gates("tanh", lambda state, x, h: (F.tanh(x + h),)),
    "relu": Gates("relu", lambda state, x, h: (F.relu(x + h),)),
}
GATES = {gates.name: gates for gates in (LSTM_GATES, GRU_GATES, *RNN_GATES.values())}


@fused("CellBackward0")
def _step(name: str, x: Any, h: Any, *state: Any) -> State:
    return GATES[name].step(state, x, h)


class _Cell(Module):
    """``weight_ih`` (gates * hidden, inputs), ``weight_hh`` (gates * hidden, hidden) and, with
    ``bias``, ``bias_ih`` and ``bias_hh``, all uniform on +-1/sqrt(hidden) at first."""

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size),
        }  # fmt: skip
        if bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        bound = 1 / math.sqrt(hidden_size) if hidden_size else 0.0
        for name, shape in shapes.items():
            made = uniform_(new_parameter(*shape, device=device, dtype=dtype), -bound, bound)
            self.register_parameter(name, made)

    @property
    def _gates(self) -> Gates:
        """How the step goes."""
        raise NotImplementedError

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The state after ``input`` (N, inputs) or (inputs,), from the state ``hx`` (N, hidden) or
        (hidden,), zeros by default; for an `LSTMCell` the state is a pair of them."""
        if input.ndim not in (1, 2) or not same_size(input.shape[-1], self.input_size):
            raise ShapeError(
                f"{type(self).__name__}: takes (N, {self.input_size}) or ({self.input_size},), not "
                f"an input of shape {list(input.shape)}, at {format_locs(here())}"
            )
        if hx is None:
            shape = (*input.shape[:-1], self.hidden_size)
            zeros = full.beside(input, shape=shape, value=0.0, dtype=input.dtype)
            state: tuple[Any, ...] = (zeros,) * self.states
        else:
            state = tuple(hx) if self.states > 1 else (hx,)
        biases = (self.bias_ih, self.bias_hh) if self.bias else (None, None)
        x = F.linear(input, self.weight_ih, biases[0])
        new = _step(self._gates.name, x, F.linear(state[0], self.weight_hh, biases[1]), *state)
        return new if self.states > 1 else new[0]

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of an `RNN`.

    >>> import staticflow as sf
    >>> RNNCell(3, 4)(sf.ones(2, 3)).shape
    (2, 4)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in RNN_GATES:
            raise ArgumentError(
                f"RNNCell: the nonlinearity is tanh or relu, not {nonlinearity!r}"
                f", at {format_locs(here())}"
            )
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    @property
    def _gates(self) -> Gates:
        return RNN_GATES[self.nonlinearity]

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        other = self.nonlinearity != "tanh"
        return super().extra_repr() + (f", nonlinearity={self.nonlinearity}" if other else "")


class LSTMCell(_Cell):
    """One step of an `LSTM`: from the pair (h, c) to the next."""

    gates, states = 4, 2
    _gates = LSTM_GATES


class GRUCell(_Cell):
    """One step of a `GRU`."""

    gates = 3
    _gates = GRU_GATES
