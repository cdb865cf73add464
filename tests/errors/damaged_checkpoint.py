# raises CheckpointError
# says is no safetensors file
import tempfile
from pathlib import Path

import staticflow as sf

path = Path(tempfile.mkdtemp()) / "state"
path.write_bytes(b"not a checkpoint")
sf.load(path)  # <-- error
