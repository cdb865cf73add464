"""Programs and modules as files of ONNX, the Open Neural Network Exchange, and such files as
modules."""

from __future__ import annotations

from staticflow.onnx.export import export
from staticflow.onnx.load import load

__all__ = ["export", "load"]
