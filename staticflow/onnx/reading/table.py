"""The row of each operator, by its name; of another domain by that and its name, with a dot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from staticflow.onnx.reading.rows.along import ALONG
from staticflow.onnx.reading.rows.boxes import BOXES
from staticflow.onnx.reading.rows.elementwise import ELEMENTWISE
from staticflow.onnx.reading.rows.indexing import INDEXING
from staticflow.onnx.reading.rows.known import KNOWN
from staticflow.onnx.reading.rows.loops import LOOPS
from staticflow.onnx.reading.rows.matrices import MATRICES
from staticflow.onnx.reading.rows.quantized import QUANTIZED
from staticflow.onnx.reading.rows.random import RANDOM
from staticflow.onnx.reading.rows.recurrent import RECURRENT
from staticflow.onnx.reading.rows.row import Row
from staticflow.onnx.reading.rows.sampling import SAMPLING
from staticflow.onnx.reading.rows.sequences import SEQUENCES
from staticflow.onnx.reading.rows.shapes import SHAPES
from staticflow.onnx.reading.rows.signals import SIGNALS
from staticflow.onnx.reading.rows.training import TRAINING
from staticflow.onnx.reading.rows.trees import TREES
from staticflow.onnx.reading.rows.windows import WINDOWS

__all__ = ["BY_FUNCTION", "REASONS", "ROWS", "why_not"]

_ALL: Mapping[str, Row] = {
    **ELEMENTWISE, **SHAPES, **ALONG, **MATRICES, **INDEXING, **WINDOWS, **LOOPS,
    **BOXES, **QUANTIZED, **RANDOM, **RECURRENT, **SAMPLING, **SEQUENCES, **SIGNALS, **TRAINING,
    **TREES,
}  # fmt: skip

ROWS: Mapping[str, Row] = {
    name: replace(row, known=KNOWN[name]) if name in KNOWN else row for name, row in _ALL.items()
}
"""By operator what it is. Operators that are not here are their own functions, where ONNX has one;
a key "NAME before VERSION" is that of an older form."""

BY_FUNCTION: frozenset[str] = frozenset((
    "AffineGrid", "Attention", "Bernoulli", "BlackmanWindow", "CausalConvWithState",
    "CenterCropPad", "DynamicQuantizeLinear", "HammingWindow", "HannWindow", "LinearAttention",
    "NegativeLogLikelihoodLoss", "RotaryEmbedding", "SoftmaxCrossEntropyLoss", "SwiGLU",
    "ai.onnx.preview.FlexAttention",
))  # fmt: skip
"""Operators that are their own functions, as onnx says them: these alone, since the library takes
some others for granted, and ends the process where a file has them otherwise."""

_TEXTS = "it is of texts, and tensors here hold numbers"

_CLASSICAL = (
    "it is of classical learning, of which ArrayFeatureExtractor, Binarizer and TreeEnsemble are "
    "read"
)

REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
        _TEXTS,
    ),
    **dict.fromkeys(
        ("ai.onnx.ml.CastMap", "ai.onnx.ml.DictVectorizer", "ai.onnx.ml.ZipMap"),
        "it is of dictionaries, and values here are tensors",
    ),
    **{
        f"ai.onnx.ml.{name}": _CLASSICAL
        for name in (
            "CategoryMapper",
            "FeatureVectorizer",
            "Imputer",
            "LabelEncoder",
            "LinearClassifier",
            "LinearRegressor",
            "Normalizer",
            "OneHotEncoder",
            "SVMClassifier",
            "SVMRegressor",
            "Scaler",
        )
    },
    "ai.onnx.preview.training.Gradient": "gradients are of sf.grad or backward, which need no node",
    "MaxRoiPool": "it rounds boxes to whole elements; RoiAlign is read",
    "ImageDecoder": "it decodes files of images; decode them before the model",
}
"""Why operators are refused, those of the newest onnx that the tests run with."""


def why_not(key: str) -> str:
    """Why an operator has no meaning here."""
    return REASONS.get(key, "it is newer than the operators that are read here")
