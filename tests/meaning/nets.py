"""Random nets and training loops over the table of meanings, trained in every way.

A net is a list of blocks on features of shape [rows, WIDTH]; each block is one thing that changes
what a program means. A program trains a net for a few steps, eagerly, compiled and jitted: losses,
parameters, buffers and the generator agree.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import staticflow as sf
from staticflow import nn

WIDTH, ROWS = 4, 6

# -- blocks: a function of the net, the number of the block and the features -----------------------


class _Halved(sf.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, ct):
        (y,) = ctx.saved_tensors
        return ct * (1 - y * y) / 2


def _without(fn):
    """The block where operations are not recorded."""

    def block(net, i, h):
        with sf.no_grad():
            return fn(net, i, h)

    return block


def _added_in_place(net, i, h):
    h = h * 1
    h += net.scales[i]
    return h


def _filled_in_place(net, i, h):
    h = h * 1
    h[:, 0] = net.scales[i][0]
    h[1] *= 2
    return h


def _view_changed(net, i, h):
    h = h * 1
    part = h[:, ::2]
    part.mul_(net.scales[i][:2])
    return h + part.sum()


def _changed_without_recording(net, i, h):
    h = h * net.scales[i]
    with sf.no_grad():
        h.clamp_(-1.0, 1.0)
        h[0] = 0.5
    return h.tanh()


def _detached_changed(net, i, h):
    h = h * net.scales[i]
    apart = h.detach()
    apart.mul_(0.5)
    return h + apart * net.scales[i]


def _straight_through(net, i, h):
    return h + (h.round() - h).detach()


def _hooked(net, i, h):
    h = h * net.scales[i]
    h.register_hook(lambda g: g * 0.5)
    return h.sin()


def _teacher(net, i, h):
    with sf.no_grad():
        target = net.linears[i](h).sigmoid()
    return h * target


def _partly_recorded(net, i, h):
    with sf.no_grad():
        a = net.linears[i](h)
        with sf.enable_grad():
            b = h * net.scales[i]
    return a * b


def _inference(net, i, h):
    with sf.inference_mode():
        a = h.abs().mean(0)
    return h + a


def _scanned(net, i, h):
    def step(c, x):
        with sf.set_grad_enabled(bool(i % 2)):
            memory = c.tanh()
        c = memory * net.scales[i] + x
        return c, c * 0.5

    last, ys = sf.scan(step, h[0], h)
    return ys + last


def _looped(net, i, h):
    def body(k, c):
        c = c * 1
        c += net.scales[i] * 0.1
        return net.linears[i](c).tanh()

    return sf.fori_loop(0, 2, body, h)


def _chosen(net, i, h):
    def one():
        with sf.no_grad():
            k = h.mean(0)
        return h * k + net.linears[i].bias + net.linears[i].weight.sum()

    # both use the same parameters: the tape has no gradient by those of the other function alone
    return sf.cond(h[0, 0] > 0.1, one, lambda: net.linears[i](h))


def _while(net, i, h):
    return sf.while_loop(
        lambda n, c: n < 3, lambda n, c: (n + 1, (c * net.scales[i]).sin()), (sf.tensor(0), h)
    )[1]


def _counted(net, i, h):
    return net.counters[i](h)


BLOCKS: dict[str, Any] = {
    "linear": lambda net, i, h: net.linears[i](h),
    "shared": lambda net, i, h: net.linears[0](h),
    "frozen": lambda net, i, h: net.frozen[i](h),
    "linear_no_grad": _without(lambda net, i, h: net.linears[i](h)),
    "norm_no_grad": _without(lambda net, i, h: net.norms[i](h)),
    "dropout_no_grad": _without(lambda net, i, h: net.drop(h)),
    "batch_norm": lambda net, i, h: net.norms[i](h),
    "layer_norm": lambda net, i, h: net.layer_norms[i](h),
    "evaluated_norm": lambda net, i, h: net.evaluated[i](h),
    "dropout": lambda net, i, h: net.drop(h),
    "noise": lambda net, i, h: h + sf.rand(WIDTH, dtype=sf.float64) * net.scales[i],
    "tanh": lambda net, i, h: h.tanh(),
    "residual": lambda net, i, h: h + net.linears[i](h).relu(),
    "exp_of_parameter": lambda net, i, h: h * net.scales[i].exp(),
    "detached_parameter": lambda net, i, h: h * net.scales[i].detach() + net.scales[i],
    "tied": lambda net, i, h: h @ net.linears[i].weight @ net.linears[i].weight.t(),
    "own_backward": lambda net, i, h: _Halved.apply(h),
    "added_in_place": _added_in_place,
    "filled_in_place": _filled_in_place,
    "view_changed": _view_changed,
    "changed_without_recording": _changed_without_recording,
    "detached_changed": _detached_changed,
    "straight_through": _straight_through,
    "hooked": _hooked,
    "teacher": _teacher,
    "partly_recorded": _partly_recorded,
    "inference": _inference,
    "scanned": _scanned,
    "looped": _looped,
    "chosen": _chosen,
    "while": _while,
    "module_hooks": lambda net, i, h: net.watched[i](h),
    "sizes": lambda net, i, h: (h.reshape(h.shape[0], 2, -1) / h.shape[0]).flatten(1),
    "transposed": lambda net, i, h: (h.t() * h.shape[1]).t().contiguous(),
    "rows_normalized": lambda net, i, h: h / (h.norm(dim=1, keepdim=True) + 1),
}

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda ps: sf.optim.SGD(ps, lr=0.05),
    "momentum": lambda ps: sf.optim.SGD(ps, lr=0.05, momentum=0.9, weight_decay=0.1),
    "adam": lambda ps: sf.optim.Adam(ps, lr=0.01, eps=1e-3),
    "adamw": lambda ps: sf.optim.AdamW(ps, lr=0.01, eps=1e-3, weight_decay=0.1),
    "rmsprop": lambda ps: sf.optim.RMSprop(ps, lr=0.01, eps=1e-3),
}


@dataclass(frozen=True)
class Program:
    """Blocks in their order, the optimiser, whether the net trains, and the seed of its values."""

    blocks: tuple[str, ...]
    optimizer: str
    training: bool
    penalty: bool
    seed: int

    def __str__(self) -> str:
        mode = ("train" if self.training else "eval") + ("+penalty" if self.penalty else "")
        return f"{self.seed} {self.optimizer} {mode}: {' '.join(self.blocks)}"


def draw_program(seed: int) -> Program:
    rng = random.Random(seed)
    blocks = tuple(rng.choice([*BLOCKS]) for _ in range(rng.randint(1, 6)))
    return Program(blocks, rng.choice([*OPTIMIZERS]), rng.random() < 0.8, rng.random() < 0.2, seed)


class Net(nn.Module):
    """The blocks of a program, each with parts of its own."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        each = range(len(program.blocks))
        self.blocks = program.blocks
        self.first = nn.Linear(WIDTH, WIDTH)
        self.linears = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in each])
        self.frozen = nn.ModuleList([nn.Linear(WIDTH, WIDTH).requires_grad_(False) for _ in each])
        self.norms = nn.ModuleList([nn.BatchNorm1d(WIDTH) for _ in each])
        self.evaluated = nn.ModuleList([nn.BatchNorm1d(WIDTH) for _ in each])
        self.layer_norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in each])
        self.watched = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in each])
        self.scales = nn.ParameterList([nn.Parameter(sf.randn(WIDTH)) for _ in each])
        self.drop = nn.Dropout(0.3)
        for layer in self.watched:
            layer.register_forward_hook(lambda m, args, out: out * 1.5)
            layer.register_full_backward_hook(
                lambda m, gi, go: tuple(g if g is None else g * 2 for g in gi)
            )
        self.double().train(program.training)
        for layer in self.evaluated:
            layer.eval()

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        for i, name in enumerate(self.blocks):
            h = BLOCKS[name](self, i, h)
        return h


def loss_of(net: Net, program: Program, x: Any) -> Any:
    h = net(x)
    loss = (h.tanh() * x).mean() + (h * h).mean() * 0.1
    if program.penalty:  # a second derivative
        slope = sf.grad(loss, net.first.weight, create_graph=True, allow_unused=True)
        loss = loss if slope is None else loss + (slope * slope).sum()
    return loss


STEPS = 3


def start(program: Program) -> tuple[Net, Any, list[Any]]:
    sf.manual_seed(program.seed)
    net = Net(program)
    opt = OPTIMIZERS[program.optimizer]([*net.parameters()])
    values = np.random.default_rng(program.seed).standard_normal((STEPS, ROWS, WIDTH))
    return net, opt, list(map(sf.from_numpy, values))


def eager(program: Program) -> dict[str, Any]:
    net, opt, data = start(program)
    losses = [_step(opt, loss_of(net, program, x)) for x in data]
    return _answer(net, losses)


def jitted(program: Program) -> dict[str, Any]:
    net, opt, data = start(program)
    loss = sf.jit(lambda x: loss_of(net, program, x))
    losses = [_step(opt, loss(x)) for x in data]
    return _answer(net, losses)


def compiled(program: Program) -> dict[str, Any]:
    net, opt, data = start(program)
    x = sf.placeholder((None, WIDTH), dtype="float64", name="x")
    loss = loss_of(net, program, x)
    step = sf.compile([x], loss, updates=opt.minimize(loss))
    return _answer(net, [step(v).item() for v in data])


def _step(opt: Any, loss: Any) -> float:
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def _answer(net: Net, losses: list[float]) -> dict[str, Any]:
    state = {name: t.numpy().copy() for name, t in net.state_dict().items()}
    return {"losses": losses, **state, "generator": sf.get_rng_state().numpy()}


WAYS = {"compile": compiled, "jit": jitted}


def difference(program: Program) -> str | None:
    """The first thing that a way to train gives otherwise than eagerly; None if there is none."""
    want = _attempt(eager, program)
    for way, run in WAYS.items():
        got = _attempt(run, program)
        if isinstance(want, str) or isinstance(got, str):
            if isinstance(want, str) and isinstance(got, str):
                continue
            return f"{way}: {got if isinstance(got, str) else want!r}"
        for name, value in want.items():
            if not np.allclose(got[name], value, rtol=1e-6, atol=1e-8, equal_nan=True):
                return f"{way}: {name} is {got[name]}, eagerly {value}"
    return None


def _attempt(run: Any, program: Program) -> Any:
    """What a run gives, or the error that it ends in."""
    try:
        return run(program)
    except sf.StaticflowError as error:
        return f"{type(error).__name__}: {error}"


def shrink(program: Program) -> Program:
    """A shorter program with a difference still."""
    smaller = True
    while smaller:
        smaller = False
        for i in range(len(program.blocks)):
            blocks = program.blocks[:i] + program.blocks[i + 1 :]
            candidate = replace(program, blocks=blocks)
            if blocks and difference(candidate):
                program, smaller = candidate, True
                break
    for change in ({"optimizer": "sgd"}, {"penalty": False}, {"training": True}):
        candidate = replace(program, **change)
        if difference(candidate):
            program = candidate
    return program
