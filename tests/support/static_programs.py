"""Programs of sizes that are not known, without loops and with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import staticflow as sf


def _attention(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT * 0.25).softmax(-1) @ v


def _normalized(x: Any, scale: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return centred * ((centred * centred).mean(-1, keepdim=True) + 1e-3).rsqrt() * scale


def _gradients(x: Any, w: Any) -> Any:
    loss = (x @ w).tanh().log_softmax(1).sum()
    if isinstance(x, sf.Tensor):
        x, w = (t.detach().requires_grad_() for t in (x, w))
        loss = (x @ w).tanh().log_softmax(1).sum()
    return sf.grad(loss, [x, w])


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "dense": (lambda x, w, b: (x @ w.T + b).relu(), ("nm", "km", "k")),
    "normalized": (_normalized, ("nm", "m")),
    "attention": (_attention, ("nm", "km", "kn")),
    "batched": (lambda x, y: (x @ y, y.mT @ x.mT), ("nmk", "nkm")),
    "gradients": (_gradients, ("nm", "mk")),
    "statistics": (lambda x: (x.sum(0), x.mean(1), (x * x).sum(), x.logsumexp(0)), ("nm",)),
    "views": (lambda x: (x.T.reshape(-1), x[1:, ::2], x[:-1], x.unsqueeze(1) * x.unsqueeze(0)), ("nm",)),
    "joined": (lambda x, y: (sf.cat([x, y * 2, x]), sf.stack([x, x.sin()], 1)), ("nm", "km")),
    "running": (lambda x: sf.scan(lambda c, r: (c * 0.5 + r, (c * r).sum()), x.sum(0), x), ("nm",)),
}  # fmt: skip
