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

from staticflow.nn import functional as functional
from staticflow.nn import init as init
from staticflow.nn import utils as utils
from staticflow.nn.activation import *  # noqa: F403
from staticflow.nn.adaptive_softmax import *  # noqa: F403
from staticflow.nn.attention import MultiheadAttention as MultiheadAttention
from staticflow.nn.cells import *  # noqa: F403
from staticflow.nn.container import *  # noqa: F403
from staticflow.nn.conv import *  # noqa: F403
from staticflow.nn.dropout import *  # noqa: F403
from staticflow.nn.embedding import *  # noqa: F403
from staticflow.nn.flatten import *  # noqa: F403
from staticflow.nn.lazy import *  # noqa: F403
from staticflow.nn.linear import *  # noqa: F403
from staticflow.nn.loss import *  # noqa: F403
from staticflow.nn.module import Module as Module
from staticflow.nn.normalization import *  # noqa: F403
from staticflow.nn.parameter import Parameter as Parameter
from staticflow.nn.parameter import UninitializedBuffer as UninitializedBuffer
from staticflow.nn.parameter import UninitializedParameter as UninitializedParameter
from staticflow.nn.pooling import *  # noqa: F403
from staticflow.nn.recurrent import *  # noqa: F403
from staticflow.nn.shapes import *  # noqa: F403
from staticflow.nn.sync_batch_norm import *  # noqa: F403
from staticflow.nn.transformer import *  # noqa: F403
from staticflow.nn.tree import Tree as _Tree
from staticflow.ops.declaring.foreign import (
    refuses_data,
    refuses_foreign_in_classes,
    refuses_foreign_to_make,
)
from staticflow.ops.random.sampling import gives_back

refuses_foreign_to_make(Module, lambda init: refuses_data(gives_back(init)))
refuses_foreign_in_classes(_Tree, but=("forward",))
