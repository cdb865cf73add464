"""Workload n: a GPT of 4 layers, a whole step of AdamW, and greedy decoding of 128 tokens.

Width 128, 4 heads, 512 tokens to choose from; batches of 16 texts of 64 tokens, both of unknown
size in staticflow's program. Decoding keeps keys and values of what was read in a cache, for 16
texts at once. Layer norm before each part (A. Radford et al., "Language models are unsupervised
multitask learners", 2019), no dropout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Contestant, main, repeated, size, threads, training

LAYERS, WIDTH, HEADS, WORDS = 4, 128, 4, 512
BATCH, LENGTH, DECODED = 16, 64, 128
LR, BETAS, EPS, DECAY = 1e-3, (0.9, 0.999), 1e-8, 0.01


def shapes() -> dict[str, tuple[int, ...]]:
    """The parameters."""
    found = {"word": (WORDS, WIDTH), "place": (max(LENGTH, DECODED), WIDTH)}
    for i in range(LAYERS):
        found |= {
            f"{i}.norm1": (WIDTH,), f"{i}.shift1": (WIDTH,), f"{i}.qkv": (3 * WIDTH, WIDTH),
            f"{i}.out": (WIDTH, WIDTH), f"{i}.norm2": (WIDTH,), f"{i}.shift2": (WIDTH,),
            f"{i}.up": (4 * WIDTH, WIDTH), f"{i}.bias": (4 * WIDTH,),
            f"{i}.down": (WIDTH, 4 * WIDTH),
        }  # fmt: skip
    return found | {"norm": (WIDTH,), "shift": (WIDTH,), "head": (WORDS, WIDTH)}


def values() -> dict[str, Any]:
    """The values of the parameters: scales are 1, shifts 0."""
    rng = np.random.default_rng(0)
    found = {}
    for name, shape in shapes().items():
        kind = name.rpartition(".")[2]
        value = 0.1 * rng.standard_normal(shape)
        if kind.startswith(("norm", "shift", "bias")):
            value = np.full(shape, float(kind.startswith("norm")))
        found[name] = value.astype(np.float32)
    return found


def texts() -> tuple[Any, Any]:
    """Tokens, and those that follow them."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, WORDS, (BATCH, LENGTH + 1))
    return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])


def scores(library: Any, p: Any, tokens: Any) -> Any:
    """The scores of the words that follow, in what PyTorch and staticflow have alike."""
    F = library.nn.functional
    x = p["word"][tokens] + p["place"][: tokens.shape[1]]
    for i in range(LAYERS):
        y = F.layer_norm(x, (WIDTH,), p[f"{i}.norm1"], p[f"{i}.shift1"])
        y = F.linear(y, p[f"{i}.qkv"])
        parts = y.reshape(*y.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + F.linear(mixed.transpose(1, 2).flatten(2), p[f"{i}.out"])
        x = x + feed(library, p, i, x)
    return F.linear(F.layer_norm(x, (WIDTH,), p["norm"], p["shift"]), p["head"])


def feed(library: Any, p: Any, i: int, x: Any) -> Any:
    """What the second part of a layer adds."""
    F = library.nn.functional
    y = F.layer_norm(x, (WIDTH,), p[f"{i}.norm2"], p[f"{i}.shift2"])
    return F.linear(F.gelu(F.linear(y, p[f"{i}.up"], p[f"{i}.bias"])), p[f"{i}.down"])


def objective(library: Any, p: Any, tokens: Any, following: Any) -> Any:
    """Cross-entropy."""
    found = scores(library, p, tokens)
    return library.nn.functional.cross_entropy(found.flatten(0, 1), following.flatten())


# -- a step of training ---------------------------------------------------------------------------


def staticflow_static() -> Contestant:
    """``minimize``; batch and length are each a `size`."""
    import staticflow as sf

    arrays = texts()
    p = {name: sf.nn.Parameter(value) for name, value in values().items()}
    sizes = size("B", BATCH), size("T", LENGTH)
    tokens, following = (sf.placeholder(sizes, "int64", name=n) for n in ("x", "y"))
    loss = objective(sf, p, tokens, following)
    optimiser = sf.optim.AdamW(p.values(), LR, BETAS, EPS, DECAY)
    step = sf.compile([tokens, following], loss, updates=optimiser.minimize(loss))
    return training(lambda: step(*arrays), lambda: [*p.values()], step, arrays)


def by_autograd(library: Any, wrap: Any = lambda fn: fn, **options: Any) -> Contestant:
    """One operation after the other, or the loss as one that ``wrap`` makes, and the optimiser of
    the library."""
    arrays = [library.from_numpy(a) for a in texts()]
    p = {n: library.nn.Parameter(library.from_numpy(v)) for n, v in values().items()}
    optimiser = library.optim.AdamW(p.values(), LR, BETAS, EPS, DECAY, **options)
    loss_of = wrap(lambda p, tokens, following: objective(library, p, tokens, following))

    def step() -> Any:
        optimiser.zero_grad()
        loss = loss_of(p, *arrays)
        loss.backward()
        optimiser.step()
        return loss

    return training(step, lambda: [*p.values()])


def staticflow_eager() -> Contestant:
    """Autograd."""
    import staticflow as sf

    return by_autograd(sf)


def staticflow_jit() -> Contestant:
    """Autograd through the loss, which `jit` compiles with its gradient."""
    import staticflow as sf

    return by_autograd(sf, sf.jit)


def pytorch_eager() -> Contestant:
    """Autograd; the optimiser updates all parameters in one call."""
    import torch

    torch.set_num_threads(threads())
    return by_autograd(torch, fused=True)


def adam_w(p: Any, g: Any, m: Any, v: Any, rate: Any, scale: Any) -> tuple[Any, Any, Any]:
    """A parameter and its moments after a step (I. Loshchilov, F. Hutter, "Decoupled weight decay
    regularization", 2019); ``rate`` and ``scale`` have the corrections of both moments."""
    m = BETAS[0] * m + (1 - BETAS[0]) * g
    v = BETAS[1] * v + (1 - BETAS[1]) * g * g
    return p * (1 - LR * DECAY) - rate * m / (v**0.5 * scale + EPS), m, v


def corrections(count: Any) -> tuple[Any, Any]:
    """The rate and the scale of step number ``count``, from 1 on."""
    return LR / (1 - BETAS[0] ** count), (1 - BETAS[1] ** count) ** -0.5


def torch_compile() -> Contestant:
    """``torch.compile`` of the whole step, gradient and update included."""
    import torch

    torch.set_num_threads(threads())
    tokens, following = map(torch.from_numpy, texts())
    p = {n: torch.from_numpy(v) for n, v in values().items()}
    moments = {n: (torch.zeros_like(v), torch.zeros_like(v)) for n, v in p.items()}
    count = torch.zeros(())

    @torch.compile
    def step() -> Any:
        grads, loss = torch.func.grad_and_value(lambda p: objective(torch, p, tokens, following))(p)
        count.add_(1)
        rate, scale = corrections(count)
        for n, value in p.items():
            new = adam_w(value, grads[n], *moments[n], rate, scale)
            for old, changed in zip((value, *moments[n]), new, strict=True):
                old.copy_(changed)
        return loss

    return training(step, lambda: [*p.values()])


def jax_layers(p: Any, x: Any, attend: Any) -> Any:
    """The scores of the words that follow; ``attend(i, qkv)`` mixes what a layer has read."""
    import jax

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        var = (centred * centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(var + 1e-5) * scale + shift

    for i in range(LAYERS):
        y = norm(x, p[f"{i}.norm1"], p[f"{i}.shift1"])
        x = x + attend(i, y @ p[f"{i}.qkv"].T) @ p[f"{i}.out"].T
        y = norm(x, p[f"{i}.norm2"], p[f"{i}.shift2"])
        y = jax.nn.gelu(y @ p[f"{i}.up"].T + p[f"{i}.bias"], approximate=False)
        x = x + y @ p[f"{i}.down"].T
    return norm(x, p["norm"], p["shift"]) @ p["head"].T


def jax_jit() -> Contestant:
    """``jit`` of the whole step, parameters and moments donated."""
    import jax
    import jax.numpy as jnp

    arrays = [jnp.asarray(a) for a in texts()]
    p = {n: jnp.asarray(v) for n, v in values().items()}
    state = p, *({n: jnp.zeros_like(v) for n, v in p.items()} for _ in "mv"), jnp.zeros(())

    def attend(i: int, qkv: Any) -> Any:
        parts = qkv.reshape(*qkv.shape[:2], 3, HEADS, WIDTH // HEADS)
        q, k, v = (parts[:, :, j] for j in range(3))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(*qkv.shape[:2], WIDTH)

    def objective(p: Any, tokens: Any, following: Any) -> Any:
        x = p["word"][tokens] + p["place"][: tokens.shape[1]]
        logs = jax.nn.log_softmax(jax_layers(p, x, attend))
        return -jnp.take_along_axis(logs, following[..., None], 2).mean()

    @jax.jit(donate_argnums=0)
    def step(state: Any, tokens: Any, following: Any) -> Any:
        p, m, v, count = state
        loss, g = jax.value_and_grad(objective)(p, tokens, following)
        rate, scale = corrections(count + 1)
        new = {n: adam_w(p[n], g[n], m[n], v[n], rate, scale) for n in p}
        return loss, (*({n: t[j] for n, t in new.items()} for j in range(3)), count + 1)

    loss = None

    def run(n: int) -> None:
        nonlocal loss, state
        for _ in range(n):
            loss, state = step(state, *arrays)
        jax.block_until_ready(state)

    return Contestant(run, lambda: (loss, *(state[0][n] for n in shapes())))


# -- decoding -------------------------------------------------------------------------------------


def one_token(library: Any, p: Any, token: Any, place: Any, cache: Any, seen: Any) -> Any:
    """The words that follow best, (BATCH,); ``cache`` has the keys and values of each layer,
    (2, BATCH, HEADS, DECODED, WIDTH // HEADS), and takes those of this place, which has no dims or
    one of size 1. Of what it has, ``seen`` is True for the places up to this one."""
    F = library.nn.functional
    x = p["word"][token] + p["place"][place]
    for i in range(LAYERS):
        y = F.layer_norm(x, (WIDTH,), p[f"{i}.norm1"], p[f"{i}.shift1"])
        q, k, v = F.linear(y, p[f"{i}.qkv"]).reshape(-1, 3, HEADS, WIDTH // HEADS).unbind(1)
        for kept, new in zip(cache[i], (k, v), strict=True):
            kept[:, :, place] = new[:, :, None] if place.ndim else new
        weights = ((cache[i][0] @ q[..., None])[..., 0] * (WIDTH // HEADS) ** -0.5).where(
            seen, library.full((), -1e30)
        )
        mixed = (weights.softmax(-1)[..., None, :] @ cache[i][1]).flatten(1)
        x = x + F.linear(mixed, p[f"{i}.out"])
        x = x + feed(library, p, i, x)
    return F.linear(F.layer_norm(x, (WIDTH,), p["norm"], p["shift"]), p["head"]).argmax(-1)


def first_tokens() -> Any:
    """A token of each text."""
    return texts()[0][:, 0].copy()


def staticflow_decode() -> Contestant:
    """A loop of the graph, whose carries are the caches."""
    import staticflow as sf

    p = {name: sf.nn.Parameter(value) for name, value in values().items()}
    first = sf.placeholder((BATCH,), "int64", name="first")
    places = sf.arange(DECODED)
    shape = (BATCH, HEADS, DECODED, WIDTH // HEADS)

    def read(carry: Any, place: Any) -> Any:
        token, caches = carry
        caches = [(k.clone(), v.clone()) for k, v in caches]
        token = one_token(sf, p, token, place, caches, places <= place)
        return (token, caches), token

    start = first, [(sf.zeros(shape), sf.zeros(shape)) for _ in range(LAYERS)]
    with sf.no_grad():
        _, tokens = sf.scan(read, start, places)
    program = sf.compile([first], tokens)
    array = first_tokens()
    return repeated(lambda: program(array), program=program, arguments=(array,))


def decode_by_hand(library: Any, one: Any, dims: int = 0) -> Contestant:
    """A Python loop over the tokens, whose places have so many dims."""
    p = {n: library.from_numpy(v) for n, v in values().items()}
    first = library.from_numpy(first_tokens())
    places = library.arange(DECODED)
    each = places.reshape(DECODED, *(1,) * dims).unbind(0)
    caches = [
        tuple(library.zeros(BATCH, HEADS, DECODED, WIDTH // HEADS) for _ in "kv")
        for _ in range(LAYERS)
    ]

    def call() -> Any:
        token, found = first, []
        with library.no_grad():
            for i in range(DECODED):
                token = one(library, p, token, each[i], caches, places <= each[i])
                found.append(token)
        return library.stack(found)

    return repeated(call)


def staticflow_eager_decode() -> Contestant:
    """A Python loop over the tokens."""
    import staticflow as sf

    return decode_by_hand(sf, one_token)


def pytorch_decode() -> Contestant:
    """A Python loop over the tokens."""
    import torch

    torch.set_num_threads(threads())
    return decode_by_hand(torch, one_token)


def torch_compile_decode() -> Contestant:
    """A Python loop over a compiled token; a place without dims would be a number to it."""
    import torch

    torch.set_num_threads(threads())
    return decode_by_hand(torch, torch.compile(one_token), dims=1)


def jax_decode() -> Contestant:
    """A scan, whose carries are the caches."""
    import jax
    import jax.numpy as jnp

    p = {n: jnp.asarray(v) for n, v in values().items()}
    size = WIDTH // HEADS

    @jax.jit
    def program(p: Any, first: Any) -> Any:
        def read(carry: Any, place: Any) -> Any:
            token, caches = carry
            caches = [*caches]

            def attend(i: int, qkv: Any) -> Any:
                parts = qkv.reshape(-1, 3, HEADS, size)
                keys, kept = caches[i]
                keys = jax.lax.dynamic_update_index_in_dim(keys, parts[:, 1], place, 2)
                kept = jax.lax.dynamic_update_index_in_dim(kept, parts[:, 2], place, 2)
                caches[i] = keys, kept
                weights = jnp.einsum("bhtd,bhd->bht", keys, parts[:, 0]) * size**-0.5
                weights = jax.nn.softmax(jnp.where(jnp.arange(DECODED) <= place, weights, -1e30))
                return jnp.einsum("bht,bhtd->bhd", weights, kept).reshape(-1, WIDTH)

            found = jax_layers(p, p["word"][token] + p["place"][place], attend).argmax(-1)
            return (found, tuple(caches)), found

        cache = jnp.zeros((BATCH, HEADS, DECODED, size))
        start = first, ((cache, cache),) * LAYERS
        return jax.lax.scan(read, start, jnp.arange(DECODED))[1]

    first = jnp.asarray(first_tokens())
    return repeated(lambda: program(p, first), jax.block_until_ready)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "GPT of 4 layers, AdamW step": {
                "PyTorch eager": pytorch_eager,
                "staticflow static": staticflow_static,
                "staticflow eager": staticflow_eager,
                "torch.compile": torch_compile,
                "JAX jit": jax_jit,
            },
            "decoding of 128 tokens, 16 texts": {
                "PyTorch eager": pytorch_decode,
                "staticflow static": staticflow_decode,
                "staticflow eager": staticflow_eager_decode,
                "torch.compile, a token": torch_compile_decode,
                "JAX scan": jax_decode,
            },
        },
        checked_runs=2,
        tolerance=2e-2,
    )
