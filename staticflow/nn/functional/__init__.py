"""The functions behind the layers: ops and plain functions of ops, alike in both modes."""

from staticflow.nn.functional.activations import *  # noqa: F403
from staticflow.nn.functional.attention import *  # noqa: F403
from staticflow.nn.functional.class_losses import *  # noqa: F403
from staticflow.nn.functional.conv import *  # noqa: F403
from staticflow.nn.functional.ctc import *  # noqa: F403
from staticflow.nn.functional.dropout import *  # noqa: F403
from staticflow.nn.functional.embedding import *  # noqa: F403
from staticflow.nn.functional.fractional_pooling import *  # noqa: F403
from staticflow.nn.functional.grid import *  # noqa: F403
from staticflow.nn.functional.losses import *  # noqa: F403
from staticflow.nn.functional.margin_losses import *  # noqa: F403
from staticflow.nn.functional.normalization import *  # noqa: F403
from staticflow.nn.functional.pad import *  # noqa: F403
from staticflow.nn.functional.pooling import *  # noqa: F403
from staticflow.nn.functional.shapes import *  # noqa: F403
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.indexing.scatter_ops import one_hot as one_hot
from staticflow.ops.matrices.contract import linear as linear
from staticflow.ops.matrices.products import bilinear as bilinear
from staticflow.ops.statistics.distances import cosine_similarity as cosine_similarity
from staticflow.ops.statistics.distances import pairwise_distance as pairwise_distance
from staticflow.ops.statistics.distances import pdist as pdist

refuses_foreign_in(globals())
