"""What is done with the tape: functions of one's own, hooks, derivatives of derivatives."""

from __future__ import annotations

import math

import numpy as np
from programs.given import drawn, filled

import staticflow as torch
import staticflow.nn.functional as F
from staticflow import nn, optim


def custom_mark_dirty(log, refused):

    class Inplace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.s = s
            x.mul_(s)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return (g * ctx.s, None)

    w = drawn(3, grad=True)
    y = w.clone()
    z = Inplace.apply(y, 3.0)
    log(z is y, y, y.grad_fn is not None)
    (z * z).sum().backward()
    log(w.grad)
    refused(lambda: Inplace.apply(w, 2.0))

    class Save(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, flag=True):
            ctx.save_for_backward(a, b)
            ctx.flag = flag
            return (a * b, a + b)

        @staticmethod
        def backward(ctx, ga, gb):
            a, b = ctx.saved_tensors
            log(ctx.needs_input_grad, gb)
            return (ga * b + gb, ga * a + gb if ctx.needs_input_grad[1] else None, None)

    a, b = (drawn(2, seed=1, grad=True), drawn(2, seed=2))
    p, q = Save.apply(a, b)
    log(p, q)
    p.sum().backward()
    log(a.grad)

    class NoGrad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return (g, g)

    x = drawn(2, grad=True)
    refused(lambda: NoGrad.apply(x).sum().backward())

    class WrongShape(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.sum(0).expand(5)

    refused(lambda: WrongShape.apply(x).sum().backward())

    class Missing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    refused(lambda: Missing.apply(x).sum().backward())


def hooks_edit(log, refused):
    m = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    h1 = m[0].weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    h2 = m[2].register_full_backward_hook(lambda mod, gi, go: (gi[0] * 2,))
    seen = []
    h3 = m[1].register_forward_hook(lambda mod, i, o: seen.append(o.shape) or o * 0.5)
    h4 = m[0].register_forward_pre_hook(lambda mod, i: (i[0] + 1,))
    x = drawn(5, 3, grad=True)
    m(x).sum().backward()
    log([p.grad for p in m.parameters()], x.grad, [list(s) for s in seen])
    for h in (h1, h2, h3, h4):
        h.remove()
    m.zero_grad()
    x.grad = None
    m(x).sum().backward()
    log([p.grad for p in m.parameters()], x.grad)
    y = x * 2
    y.register_hook(lambda g: log(g))
    y.retain_grad()
    (y**2).mean().backward()
    log(y.grad)
    refused(lambda: drawn(3).register_hook(lambda g: g))


def double_backward_misc(log, refused):
    x = drawn(4, grad=True, dtype=np.float64)
    for f in (
        lambda x: x.sin().prod(),
        lambda x: (x.softmax(0) ** 2).sum(),
        lambda x: x.logsumexp(0),
        lambda x: torch.linalg.norm(x),
        lambda x: (x[:, None] * x + torch.eye(4)).det(),
        lambda x: x.cumprod(0).sum(),
        lambda x: F.gelu(x).sum() ** 2,
        lambda x: x.std(),
        lambda x: torch.sigmoid(x).log().sum(),
        lambda x: F.cross_entropy(x[None] ** 2, torch.tensor([1])),
    ):
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        (h,) = torch.autograd.grad(g.pow(2).sum(), x)
        log(g, h)
    H = torch.autograd.functional.hessian(lambda x: (x**3).sum() * x[0], x.detach())
    log(H)
    log(
        torch.autograd.functional.jacobian(
            lambda a, b: (a @ b, a.sum()), (torch.ones(2, 2), torch.ones(2))
        )
    )
    log(
        torch.autograd.functional.vhp(lambda x: (x**3).sum(), x.detach(), x.detach())[1],
        torch.autograd.functional.hvp(lambda x: (x**3).sum(), x.detach(), x.detach())[1],
    )
    log(
        torch.func.grad(lambda w: (w**2).sum())(x.detach()),
        torch.func.jacrev(lambda w: w**2)(torch.ones(2)),
        torch.func.hessian(lambda w: (w**3).sum())(torch.ones(2)),
        torch.func.vjp(torch.sin, torch.ones(2))[1](torch.ones(2)),
        torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),)),
    )
    two = x.detach(), 2 * x.detach()
    out, along = torch.func.linearize(lambda a, b: (a * b.exp(), {"sum": a.sum()}), *two)
    log(out, along(*two), along(torch.ones_like(two[0]), torch.zeros_like(two[0])))
    v = torch.ones(2, requires_grad=True)
    pullback = torch.func.vjp(torch.sin, torch.ones(2))[1]
    log(torch.autograd.grad(pullback(v)[0].sum(), v))
    log(
        torch.func.jacrev(lambda v: torch.func.jvp(torch.sin, (torch.ones(2),), (v,))[1])(
            v.detach()
        )
    )


def checkpointing(log, refused):
    from staticflow.utils.checkpoint import checkpoint, checkpoint_sequential

    m = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)))
    x = drawn(2, 3, grad=True)
    y = checkpoint(m, x, use_reentrant=False)
    y.sum().backward()
    log(y, x.grad, m[0].weight.grad)
    y = checkpoint_sequential(m, 2, x, use_reentrant=False)
    log(y)

    class Pack:
        def __init__(s):
            s.n = 0

    st = Pack()

    def pack(t):
        st.n += 1
        return t.numpy() if not t.requires_grad else t.detach().numpy()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda a: torch.from_numpy(a)):
        z = (x * x).exp().sum()
    (g,) = torch.autograd.grad(z, x)
    log(g)


def maml_meta(log, refused):
    w, b = (drawn(2, 3, grad=True), drawn(2, seed=1, grad=True))

    def net(x, p):
        return F.linear(x, p[0], p[1])

    tot = 0
    for t in range(3):
        x, y = (drawn(4, 3, seed=t), drawn(4, 2, seed=t + 9))
        fast = [w, b]
        for _ in range(2):
            g = torch.autograd.grad(F.mse_loss(net(x, fast), y), fast, create_graph=True)
            fast = [p - 0.1 * q for p, q in zip(fast, g, strict=False)]
        tot = tot + F.mse_loss(net(x + 1, fast), y)
    tot.backward()
    log(tot, w.grad, b.grad)
    m = filled(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
    ps = dict(m.named_parameters())
    x = drawn(5, 3)
    g = torch.autograd.grad(
        torch.func.functional_call(m, ps, (x,)).pow(2).mean(), list(ps.values()), create_graph=True
    )
    hv = torch.autograd.grad(sum((a * a.detach()).sum() for a in g), list(ps.values()))
    log(g, hv)


def gaussian_process(log, refused):
    X = torch.linspace(0, 1, 6, dtype=torch.float64)[:, None]
    y = torch.sin(6 * X).squeeze()
    ls, sn = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (-1.0, -2.0))
    o = optim.Adam([ls, sn], lr=0.05)
    for _i in range(4):
        K = torch.exp(-(torch.cdist(X, X) ** 2) / (2 * ls.exp() ** 2)) + sn.exp() * torch.eye(
            6, dtype=torch.float64
        )
        L = torch.linalg.cholesky(K)
        a = torch.cholesky_solve(y[:, None], L)
        nll = 0.5 * y @ a.squeeze() + L.diagonal().log().sum() + 3 * math.log(2 * math.pi)
        o.zero_grad()
        nll.backward()
        o.step()
        log(nll, ls.grad, sn.grad)
    log(
        torch.linalg.solve_triangular(L.detach(), y[:, None], upper=False),
        torch.logdet(K).item(),
        torch.slogdet(K)[1].item(),
        torch.linalg.lstsq(X, y[:, None]).solution,
        torch.inverse(K.detach()) @ K.detach(),
    )
    Q, R = torch.linalg.qr(drawn(4, 3, dtype=np.float64))
    log(
        Q @ R,
        R.abs(),
        torch.linalg.matrix_rank(drawn(4, 3)),
        torch.linalg.cond(drawn(3, 3)),
        torch.linalg.matrix_power(drawn(2, 2), 3),
        torch.linalg.pinv(drawn(3, 2)),
        torch.linalg.norm(drawn(3, 2), "nuc"),
        torch.linalg.vector_norm(drawn(4), 3),
        torch.linalg.eigh(drawn(3, 3) @ drawn(3, 3).T)[0],
        torch.linalg.multi_dot([drawn(2, 3), drawn(3, 4), drawn(4)]),
        torch.linalg.cross(drawn(2, 3), drawn(2, 3, seed=1)),
    )
