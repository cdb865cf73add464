"""Many operations, in place and on views, of NaN, of nothing and of no dims."""

from __future__ import annotations

from programs.given import drawn

import staticflow as torch
import staticflow.nn.functional as F


def misc_functions(log, refused):
    x = drawn(3, 4)
    log(
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
        torch.searchsorted(torch.tensor([1.0, 2.0, 3.0]), 2.5),
        x.quantile(0.5),
        x.median(),
        x.median(1),
        x.mode(),
        x.kthvalue(2),
        torch.histc(x, 4, -2, 2),
        x.roll(1, 0),
        x.flip(1),
        x.rot90(),
        torch.tril(x),
        torch.triu_indices(3, 3),
        torch.combinations(torch.arange(3)),
        torch.cartesian_prod(torch.arange(2), torch.arange(2)),
        torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"),
        torch.logspace(0, 2, 3),
        torch.diff(x),
        torch.cross(x[:, :3], x[:, 1:], dim=1),
        torch.outer(x[0], x[1]),
        torch.kron(torch.eye(2), x[:2, :2]),
        torch.trace(x),
        torch.block_diag(x[:1, :1], x[1:, 1:2]),
        x.clamp(-1),
        x.heaviside(torch.tensor(0.5)),
        torch.lerp(x, x * 2, 0.3),
        torch.addcdiv(x, x, x + 9, value=2),
        torch.hypot(x, x),
        x.logaddexp(x),
        torch.renorm(x, 2, 0, 1.0),
        x.nan_to_num(),
        torch.isclose(x, x),
        x.argsort(dim=1, descending=True),
        x.unique(),
        torch.isin(torch.arange(4), torch.tensor([1, 3])),
        torch.take_along_dim(x, x.argsort(1), 1),
        x.cummax(1),
        x.tensor_split(3, 1),
        torch.vander(torch.arange(3.0)),
        x.count_nonzero(),
        x.amin((0, 1)),
        x.aminmax(),
        x.std_mean(0) if hasattr(x, "std_mean") else 0,
        torch.std_mean(x, 0),
        torch.var_mean(x),
        torch.tensordot(x, x, dims=([0, 1], [0, 1])),
        x.movedim(0, 1),
        torch.block_diag(x),
        torch.trapezoid(x),
        x.corrcoef(),
        x.diag_embed(),
        x.index_fill(0, torch.tensor([1]), 5.0),
        x.index_add(0, torch.tensor([0, 0, 1]), x),
        torch.scatter_reduce(
            torch.zeros(4), 0, torch.tensor([0, 1, 1]), x[:, 0], "mean", include_self=False
        ),
        torch.nn.functional.pad(x, (1, 2), value=3.0),
        F.pad(x[None], (1, 1), mode="reflect"),
        F.interpolate(x[None, None], scale_factor=2, mode="bilinear", align_corners=False),
        F.interpolate(x[None, None], size=(2, 2)),
        F.grid_sample(x[None, None], torch.zeros(1, 1, 1, 2), align_corners=False),
        F.pixel_shuffle(drawn(1, 4, 2, 2), 2),
        F.adaptive_avg_pool2d(x[None], 2),
        F.lp_pool1d(x[None], 2, 2),
        F.group_norm(x[None], 3),
        F.instance_norm(x[None]),
        F.local_response_norm(x[None, :, :, None], 2),
        F.glu(x),
        F.normalize(x),
        F.gumbel_softmax(x).shape == x.shape,
    )
    log(
        torch.finfo(torch.float32).eps,
        torch.iinfo(torch.int8).max,
        torch.result_type(torch.ones(1, dtype=torch.int32), 1.5) == torch.float32,
        torch.promote_types(torch.int8, torch.uint8) == torch.int16,
        torch.can_cast(torch.float32, torch.int64),
        torch.is_floating_point(x),
        torch.get_default_dtype() == torch.float32,
        torch.broadcast_shapes((2, 1), (3,)) == (2, 3),
    )
    log(
        x.dtype.is_floating_point,
        torch.int64.is_floating_point,
        x.dtype.itemsize,
        x.dtype.is_complex,
        torch.int8.is_signed,
        torch.uint8.is_signed,
    )


def inplace_views_corner(log, refused):
    x = drawn(3, 4, grad=True)
    y = x * 1
    y[0] = 0
    y[1:, ::2] *= 2
    y[y > 1] = y[y > 1] * 3
    y[:, -1].add_(y[:, 0].clone())
    y.t()[1].mul_(2)
    y.view(-1)[5] = 7
    y.diagonal().zero_()
    y[[0, 2]] += 1
    y[..., 1:3].clamp_(-1, 1)
    (y**2).sum().backward()
    log(y, x.grad, y._version)
    a = torch.zeros(4)
    b = a[1:3]
    b += 1
    c = a.view(2, 2)
    c.t_()[0, 1] = 9
    log(a, b, c, a._version, b._version, c.is_contiguous(), b._base is a)
    m = torch.arange(6).reshape(2, 3)
    m[:, 1] = torch.tensor([7, 8])
    m[0] += m[1]
    m += 1
    m //= 2
    m -= m
    log(m)
    refused(lambda: m.add_(1.5))
    refused(lambda: m.div_(2))
    refused(lambda: m.__setitem__(0, torch.ones(2)))
    m[0, 0] = 3.7
    log(m)
    bb = torch.tensor([True, False])
    refused(lambda: bb.add_(1))
    bb |= torch.tensor([False, True])
    log(bb, ~bb, bb ^ True, bb.sum(), bb + bb, bb * 2.0)
    refused(lambda: -bb)
    refused(lambda: bb - bb)
    u = torch.ones(2, 2).expand(3, 2, 2)
    refused(lambda: u.add_(1))
    e = torch.ones(1, 3).expand(2, 3)
    refused(lambda: e.zero_())
    log(e.contiguous().add_(1), e + 1)
    z = drawn(2, 3)
    z2 = z.transpose(0, 1).contiguous().view(-1)
    z2.zero_()
    log(z)
    s = z.squeeze()
    s.zero_()
    log(z)
    d = z.detach()
    d.fill_(2)
    log(z)
    z.data[0] = 5
    log(z)
    n = z.numpy()
    n *= 2
    log(z)
    r = z.reshape(3, 2)
    r[0] = -1
    log(z)
    f = z.flatten()
    f[0] = 100
    log(z)
    p = z.permute(1, 0).reshape(-1)
    p[0] = 0
    log(z)
    w = drawn(3, grad=True)
    with torch.no_grad():
        w -= 0.1 * w
        w.sub_(1).clamp_(min=-1)
        w[0] = 3
    log(w, w.grad_fn, w.is_leaf, w._version)
    w.data = torch.ones(3)
    log(w, w.requires_grad)
    v = (w * 2).split([1, 2])[1]
    log(v.sum())
    k = w.clone()
    k[1:] = k[:-1] * 2
    k.sum().backward()
    log(w.grad)
    w.grad.zero_()
    log(w.grad)
    w.grad = None
    log(w.grad)
    q = torch.zeros(2, 2)
    q.fill_diagonal_(3.0)
    q.index_add_(0, torch.tensor([0, 0]), torch.ones(2, 2))
    q.scatter_(1, torch.tensor([[0], [1]]), 5.0)
    q.masked_fill_(q == 5, -1)
    q.index_copy_(1, torch.tensor([0]), torch.full((2, 1), 8.0))
    log(q)
    q.copy_(torch.tensor([1, 2]))
    log(q)
    q.swapaxes_(0, 1) if hasattr(q, "swapaxes_") else 0
    q.resize_(1, 4) if 0 else 0
    q.uniform_()
    log(bool((q >= 0).all() and (q < 1).all()))
    q.normal_(0, 1)
    q.bernoulli_(0.0)
    log(q)
    q.random_(3)
    log(bool((q < 3).all()))
    q.exponential_()
    q.zero_().lerp_(torch.ones(2, 2), 0.5).addcmul_(
        torch.ones(2, 2), torch.ones(2, 2), value=2
    ).addcdiv_(torch.ones(2, 2), torch.ones(2, 2)).pow_(
        2
    ).neg_().abs_().sqrt_().reciprocal_().round_(decimals=1)
    log(q)


def nan_zero_0d(log, refused):
    n = torch.tensor([1.0, float("nan"), 3.0])
    float("inf")
    e = torch.zeros(0)
    z = torch.zeros(2, 0)
    log(
        n.max(),
        n.min(),
        n.max(0),
        n.argmax(),
        n.sort(),
        n.topk(2),
        n.median(),
        n.nanmedian(),
        n.sum(),
        n.nansum(),
        n.mean(),
        n.nanmean(),
        torch.maximum(n, torch.ones(3)),
        torch.fmax(n, torch.ones(3)),
        n.clamp(0, 2),
        n.relu(),
        n == n,
        n != n,
        n.isnan(),
        n.cummax(0),
        n.cumsum(0),
        n.unique(),
        n.prod(),
        n.norm(),
        n.logsumexp(0),
        n.softmax(0),
        torch.where(n > 2, n, -n),
        n.sign(),
        n.floor(),
        n.nan_to_num(0.0),
        n.argsort(),
        n.kthvalue(2),
        n.amax(),
        n.std(),
        n.any(),
        n.all(),
        n.quantile(0.5),
        n.nanquantile(0.5),
        torch.searchsorted(torch.tensor([1.0, 2.0]), n),
        torch.logaddexp(n, n),
        torch.isclose(n, n),
        torch.allclose(n, n, equal_nan=True),
        torch.equal(n, n),
    )
    log(
        e.sum(),
        e.prod(),
        e.mean(),
        e.var() if 0 else 0,
        e.any(),
        e.all(),
        e.cumsum(0),
        e.sort(),
        e.norm(),
        z.sum(1),
        z.sum(0),
        z.mean(1),
        z.prod(1),
        z.logsumexp(1),
        z.max(0)[0],
        z.argmax(0),
        torch.cat([e, n]),
        z @ torch.ones(0, 3),
        z.t() @ torch.ones(2, 3),
        e.view(0, 3),
        z.reshape(0, 5),
        e.unique(),
        e.tolist(),
        len(e),
        torch.stack([e, e]),
        z.softmax(1),
        F.linear(torch.ones(0, 3), torch.ones(2, 3)),
        torch.ones(0, 3)[:, 1],
        e.numel(),
        z.norm(dim=1),
        e.repeat(3),
        F.cross_entropy(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)),
        F.mse_loss(e, e),
        e.dot(e),
        z.flatten(),
        z.split(1),
        torch.einsum("ij,kj->ik", z, z),
        e.nonzero(),
        n[n > 5],
        e.bool().sum(),
        z.cumprod(0),
        F.relu(e),
        F.conv2d(torch.ones(0, 1, 3, 3), torch.ones(2, 1, 2, 2)),
    )
    for f in (
        lambda: e.max(),
        lambda: e.min(0),
        lambda: e.argmax(),
        lambda: z.max(1),
        lambda: z.argmin(1),
        lambda: e.median(),
        lambda: e.topk(1),
        lambda: e.view(-1, 0),
        lambda: e.item(),
        lambda: e.kthvalue(1),
        lambda: e.amax(),
        lambda: e.aminmax(),
        lambda: torch.stack([]),
        lambda: e.reshape(-1, 0),
        lambda: e.std(),
        lambda: e.mode(),
    ):
        refused(f)
    s = torch.tensor(5.0)
    log(
        s.sum(0),
        s.max(0),
        s.sort(),
        s.cumsum(0),
        s.topk(1),
        s.softmax(0),
        s.view(1),
        s.reshape(-1),
        s.squeeze(),
        s.unsqueeze(0),
        s.t(),
        s.T,
        s.expand(2),
        s.flatten(),
        s[None],
        s[...],
        s[()],
        s.unique(),
        s.argmax(),
        s.std(unbiased=False),
        s.mean(0),
        s.norm(),
        s.flip(0) if 0 else 0,
        s.index_select(0, torch.tensor([0])),
        s.gather(0, torch.tensor(0)),
        s.repeat(2),
        s.nonzero(),
        s.permute(()),
        s.any(),
        s.clone().fill_(2),
        s.size(),
        s.dim(),
        s.tolist(),
        s.numel(),
        s.diag() if 0 else 0,
        s[s > 1],
        s.kthvalue(1),
        s.median(0),
        s.logsumexp(0),
        s.prod(0),
        s.argsort(),
        s.roll(1) if 0 else 0,
    )
    g = torch.tensor([1.0, 1.0, 2.0], requires_grad=True)
    g.max().backward()
    log(g.grad)
    g.grad = None
    g[:2].max(0)[0].backward()
    log(g.grad)
    g.grad = None
    g.amax().backward()
    log(g.grad)
    g.grad = None
    g.median().backward()
    log(g.grad)
    g.grad = None
    g[:2].min().backward()
    log(g.grad)
    g.grad = None
    (g[0] - g[1]).abs().backward()
    log(g.grad)
    g.grad = None
    F.relu(g - 1).sum().backward()
    log(g.grad)
    g.grad = None
    torch.maximum(g, torch.ones(3)).sum().backward()
    log(g.grad)
    g.grad = None
    g.clamp(1, 2).sum().backward()
    log(g.grad)
    g.grad = None
    (g - 1).norm().backward()
    log(g.grad)
    g.grad = None
    torch.sqrt(g - 1).sum().backward()
    log(g.grad)
    g.grad = None
    (g - g).norm().backward()
    log(g.grad)
    g.grad = None
    g.prod().backward()
    log(g.grad)
    g.grad = None
    (g - 1).prod().backward()
    log(g.grad)
    g.grad = None
    (g - 1).pow(0).sum().backward()
    log(g.grad)
    g.grad = None
    torch.atan2(g - 1, g - 1).sum().backward()
    log(g.grad)
    g.grad = None
    g.sort()[0][0].backward()
    log(g.grad)
    g.grad = None
    g.std().backward()
    log(g.grad)
    g.grad = None
    g.topk(2)[0].sum().backward()
    log(g.grad)
    g.grad = None
    g.logsumexp(0).backward()
    log(g.grad)
    g.grad = None
    (g * 0 / 0).sum().backward()
    log(g.grad)
