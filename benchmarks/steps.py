"""Steps of training of a model that PyTorch and staticflow write alike, in each of their modes.

The model is a function of the library's ``nn``; its parameters, in their order, get the same values
everywhere. The objective takes the model and the arrays of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import Contestant, Maker, threads, training

__all__ = ["Task", "jax_training"]


@dataclass(frozen=True, slots=True)
class Task:
    """A model to be trained by SGD: ``make(nn)`` gives it, ``objective(library, model, *batch)``
    the loss. ``sizes`` are the placeholders of the batch, as in `staticflow.placeholder`."""

    make: Callable[[Any], Any]
    objective: Callable[..., Any]
    batch: Callable[[], Sequence[Any]]
    sizes: Sequence[tuple[tuple[Any, ...], str]]
    lr: float

    def values(self) -> list[Any]:
        """The values of the parameters: matrices and kernels as large as He et al. (2015) begin
        with, scales near 1, shifts near 0."""
        import staticflow as sf

        rng = np.random.default_rng(0)
        found = []
        for name, p in self.make(sf.nn).named_parameters():
            inputs = int(np.prod(p.shape[1:]))
            scale = (2 / inputs) ** 0.5 if p.ndim > 1 else 0.1
            is_scale = p.ndim == 1 and name.endswith("weight")
            found.append((scale * rng.standard_normal(p.shape) + is_scale).astype(np.float32))
        return found

    def model_of(self, library: Any) -> Any:
        """The model in a library, with those values."""
        model = self.make(library.nn)
        for p, value in zip(model.parameters(), self.values(), strict=True):
            p.detach()[...] = library.from_numpy(value)
        return model

    def contestants(self) -> dict[str, Maker]:
        """Those of PyTorch and staticflow."""
        return {
            "PyTorch eager": self.pytorch,
            "staticflow static": self.static,
            "staticflow jit": self.jit,
            "staticflow eager": self.eager,
            "torch.compile": self.compiled,
        }

    def static(self) -> Contestant:
        """``minimize``, in one program."""
        import staticflow as sf

        model, batch = self.model_of(sf), self.batch()
        xs = [sf.placeholder(s, t, name=f"x{i}") for i, (s, t) in enumerate(self.sizes)]
        loss = self.objective(sf, model, *xs)
        parameters = [*model.parameters()]
        step = sf.compile(xs, loss, updates=sf.optim.SGD(parameters, lr=self.lr).minimize(loss))
        return training(lambda: step(*batch), lambda: parameters, step, tuple(batch))

    def eager(self) -> Contestant:
        """Autograd."""
        import staticflow as sf

        return self._by_autograd(sf)

    def jit(self) -> Contestant:
        """Autograd through the loss, which `jit` compiles with its gradient."""
        import staticflow as sf

        return self._by_autograd(sf, wrap=sf.jit)

    def pytorch(self, channels_last: bool = False) -> Contestant:
        """Autograd, images by rows or with the channels last."""
        import torch

        torch.set_num_threads(threads())
        return self._by_autograd(torch, channels_last)

    def _by_autograd(
        self, library: Any, channels_last: bool = False, wrap: Any = lambda fn: fn
    ) -> Contestant:
        model, batch = self.model_of(library), [library.from_numpy(a) for a in self.batch()]
        if channels_last:
            model = model.to(memory_format=library.channels_last)
            batch[0] = batch[0].to(memory_format=library.channels_last)
        optimiser = library.optim.SGD(model.parameters(), lr=self.lr)
        loss_of = wrap(lambda *xs: self.objective(library, model, *xs))

        def step() -> Any:
            optimiser.zero_grad()
            loss = loss_of(*batch)
            loss.backward()
            optimiser.step()
            return loss

        return training(step, lambda: [*model.parameters()])

    def compiled(self) -> Contestant:
        """``torch.compile`` of the whole step, gradient and update included."""
        import torch

        torch.set_num_threads(threads())
        model, batch = self.model_of(torch), [torch.from_numpy(a) for a in self.batch()]
        params = {name: p.detach() for name, p in model.named_parameters()}

        def objective(params: Any) -> Any:
            def call(*xs: Any) -> Any:
                return torch.func.functional_call(model, params, xs)

            return self.objective(torch, call, *batch)

        @torch.compile
        def step(params: Any) -> Any:
            grads, loss = torch.func.grad_and_value(objective)(params)
            for name, p in params.items():
                p.sub_(grads[name], alpha=self.lr)
            return loss

        return training(lambda: step(params), lambda: [*params.values()])


def jax_training(
    objective: Callable[..., Any], values: Sequence[Any], batch: Sequence[Any], lr: float
) -> Contestant:
    """``jit`` of a whole SGD step on ``objective(params, *batch)``, the parameters donated."""
    import jax
    import jax.numpy as jnp

    params, arrays = [jnp.asarray(v) for v in values], [jnp.asarray(a) for a in batch]

    @jax.jit(donate_argnums=0)
    def step(params: Any, *arrays: Any) -> Any:
        loss, grads = jax.value_and_grad(objective)(params, *arrays)
        return loss, [p - lr * g for p, g in zip(params, grads, strict=True)]

    loss = None

    def run(n: int) -> None:
        nonlocal loss, params
        for _ in range(n):
            loss, params = step(params, *arrays)
        jax.block_until_ready(params)

    return Contestant(run, lambda: (loss, *params))
