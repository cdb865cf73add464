# raises ModelError
# says is no model of ONNX
import tempfile
from pathlib import Path

import staticflow as sf

path = Path(tempfile.mkdtemp()) / "model.onnx"
path.write_bytes(b"not a model")
sf.onnx.load(path)  # <-- error
