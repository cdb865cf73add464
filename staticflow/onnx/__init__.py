"""Programs and modules as files of ONNX, the Open Neural Network Exchange."""

from __future__ import annotations

from staticflow.onnx.export import export

__all__ = ["export"]
