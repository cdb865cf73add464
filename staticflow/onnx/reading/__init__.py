"""Models of ONNX, from files that others wrote, as plans that run on tensors and symbols."""
