"""What each operator of ONNX is in operations of ours."""
