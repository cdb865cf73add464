"""For each op the nodes that it is in ONNX."""
