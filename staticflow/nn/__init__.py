"""Layers and losses, one definition for both modes.

A `Module` holds its parameters as eager tensors. Called on tensors it runs now; called on symbols
it writes a graph in which the parameters are captured by reference, so that compiled programs and
eager code share them.

>>> import staticflow as sf
>>> model = sf.nn.Sequential(sf.nn.Linear(4, 8), sf.nn.Tanh(), sf.nn.Linear(8, 1))
>>> model(sf.ones(2, 4)).shape
(2, 1)
>>> model(sf.placeholder((None, 4), name="x")).shape
(x_0, 1)
"""

from staticflow.nn import functional, init
from staticflow.nn.activation import ReLU, Sigmoid, Tanh
from staticflow.nn.container import Sequential
from staticflow.nn.flatten import Flatten
from staticflow.nn.init import Parameter
from staticflow.nn.linear import Linear
from staticflow.nn.loss import CrossEntropyLoss, MSELoss
from staticflow.nn.module import LoadResult, Module

__all__ = [
    "CrossEntropyLoss", "Flatten", "Linear", "LoadResult", "MSELoss", "Module", "Parameter", "ReLU",
    "Sequential", "Sigmoid", "Tanh", "functional", "init",
]  # fmt: skip
