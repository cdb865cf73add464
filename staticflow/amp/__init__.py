"""Mixed precision under PyTorch's names, ``torch.amp``: operations in few bits, and gradients that
are scaled so that float16 does not lose the small ones.

>>> import staticflow as sf
>>> generator = sf.manual_seed(0)
>>> model = sf.nn.Linear(3, 1)
>>> opt, scaler = sf.optim.SGD(model.parameters(), lr=0.1), sf.amp.GradScaler("cpu")
>>> with sf.amp.autocast("cpu", dtype=sf.float16):
...     loss = model(sf.ones(2, 3)).float().square().mean()
>>> scaler.scale(loss).backward()
>>> scaler.step(opt)
>>> scaler.update()
>>> scaler.get_scale()
65536.0
"""

from staticflow.amp.custom import custom_bwd, custom_fwd
from staticflow.amp.grad_scaler import GradScaler
from staticflow.eager.autocast import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)
from staticflow.ops.declaring.foreign import refuses_foreign_in

__all__ = [
    "GradScaler", "autocast", "clear_autocast_cache", "custom_bwd", "custom_fwd",
    "get_autocast_dtype", "is_autocast_available", "is_autocast_cache_enabled",
    "is_autocast_enabled",
]  # fmt: skip

refuses_foreign_in(globals())
