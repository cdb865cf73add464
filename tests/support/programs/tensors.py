"""Computations that are put together of operations on tensors."""

from __future__ import annotations

import math

from programs.given import drawn

import staticflow as torch
import staticflow.nn.functional as F
from staticflow import nn


def masked_loss(log, refused):
    lens = torch.tensor([3, 1, 2])
    steps = 4
    mask = torch.arange(steps)[None, :] < lens[:, None]
    log(mask)
    x = drawn(3, 4, 5, grad=True)
    y = torch.arange(12).view(3, 4) % 5
    ce = F.cross_entropy(x.transpose(1, 2), y, reduction="none")
    log(ce)
    loss = (ce * mask).sum() / mask.sum()
    loss.backward()
    log(loss, x.grad)
    x.grad = None
    y2 = y.masked_fill(~mask, -100)
    l2 = F.cross_entropy(x.view(-1, 5), y2.view(-1))
    l2.backward()
    log(l2, x.grad)
    sel = x[mask]
    log(sel)
    sel.sum().backward()
    h = x.masked_fill(~mask.unsqueeze(-1), float("-inf")).max(1)[0]
    log(h)
    mean = (x * mask[..., None].float()).sum(1) / lens[:, None]
    log(mean)
    last = x.gather(1, (lens - 1).view(-1, 1, 1).expand(-1, 1, x.size(2))).squeeze(1)
    log(last)
    from staticflow.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

    seqs = [drawn(3, 2, seed=1), drawn(1, 2, seed=2), drawn(2, 2, seed=3)]
    pad = pad_sequence(seqs, batch_first=True, padding_value=-1)
    log(pad)
    pk = pack_padded_sequence(pad, lens, batch_first=True, enforce_sorted=False)
    log(pk.data, pk.batch_sizes)
    u, loss = pad_packed_sequence(pk, batch_first=True)
    log(u, loss)


def attention_einsum(log, refused):
    B, H, S, D = (2, 2, 4, 3)
    q, k, v = (drawn(B, S, H * D, seed=i, grad=True) for i in range(3))

    def split(x):
        return x.view(B, S, H, D)

    s = torch.einsum("bqhd,bkhd->bhqk", split(q), split(k)) / math.sqrt(D)
    log(s)
    causal = torch.triu(torch.ones(S, S, dtype=torch.bool), diagonal=1)
    s = s.masked_fill(causal, float("-inf"))
    a = s.softmax(dim=-1)
    o = torch.einsum("bhqk,bkhd->bqhd", a, split(v)).reshape(B, S, -1)
    log(o)
    o.pow(2).sum().backward()
    log(q.grad, k.grad, v.grad)
    o2 = (
        F.scaled_dot_product_attention(
            split(q).transpose(1, 2),
            split(k).transpose(1, 2),
            split(v).transpose(1, 2),
            is_causal=True,
        )
        .transpose(1, 2)
        .contiguous()
        .view(B, S, -1)
    )
    log(torch.allclose(o, o2, atol=1e-06), o2)
    pe = torch.zeros(S, 4)
    pos = torch.arange(0, S, dtype=torch.float).unsqueeze(1)
    div = torch.exp(torch.arange(0, 4, 2).float() * (-math.log(10000.0) / 4))
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    log(pe)
    rot = drawn(2, 4, 6)
    x1, x2 = (rot[..., ::2], rot[..., 1::2])
    log(torch.stack((-x2, x1), dim=-1).flatten(-2))
    c1, c2 = rot.chunk(2, dim=-1)
    log(torch.cat((-c2, c1), dim=-1))


def kmeans_pca(log, refused):
    x = drawn(20, 3)
    c = x[:3].clone()
    for _ in range(5):
        d = torch.cdist(x, c)
        lab = d.argmin(dim=1)
        for k in range(3):
            if (lab == k).any():
                c[k] = x[lab == k].mean(dim=0)
    log(lab, c, torch.bincount(lab, minlength=3))
    xc = x - x.mean(0, keepdim=True)
    U, S, Vh = torch.linalg.svd(xc, full_matrices=False)
    log(S, (xc @ Vh.T[:, :2]).abs(), (S**2 / (len(x) - 1)).tolist(), torch.cov(xc.T))
    ev = torch.linalg.eigvalsh(torch.cov(x.T))
    log(ev)
    U, S, V = torch.svd(xc)
    log(S, U * S @ V.t() - xc)


def beam_search(log, refused):
    logits = drawn(5, 7)
    W = drawn(7, 7, seed=3)
    seqs = torch.zeros(1, 0, dtype=torch.long)
    scores = torch.zeros(1)
    for t in range(4):
        lp = F.log_softmax(logits[t] + (W[seqs[:, -1]] if t else torch.zeros(1, 7)), dim=-1)
        total = scores.unsqueeze(1) + lp
        best, idx = total.view(-1).topk(min(3, total.numel()))
        beam = torch.div(idx, 7, rounding_mode="floor")
        tok = idx % 7
        seqs = torch.cat([seqs[beam], tok.unsqueeze(1)], dim=1)
        scores = best
    log(seqs, scores)
    log(seqs[scores.argmax()], seqs.unbind(1))
    top_p = F.softmax(logits[0], -1)
    sp, si = torch.sort(top_p, descending=True)
    cum = torch.cumsum(sp, 0)
    rem = cum > 0.7
    rem[1:] = rem[:-1].clone()
    rem[0] = False
    loss = logits[0].clone()
    loss[si[rem]] = -float("Inf")
    log(loss, rem)
    k = torch.topk(logits, 2)[0][..., -1, None]
    log(torch.where(logits < k, torch.full_like(logits, -1000000000.0), logits))


def sliding_windows(log, refused):
    x = torch.arange(10.0)
    w = x.unfold(0, 4, 2)
    log(w, w.mean(-1), list(w.stride()))
    img = drawn(1, 1, 5, 5)
    p = F.unfold(img, kernel_size=3, stride=2)
    log(p)
    log(F.fold(p, (5, 5), 3, stride=2))
    patches = img.unfold(2, 3, 1).unfold(3, 3, 1)
    log(list(patches.shape), patches.contiguous().view(-1, 9)[4])
    k = drawn(1, 1, 3, 3, seed=2)
    log(
        torch.allclose(
            (p.transpose(1, 2) @ k.view(1, -1).t()).transpose(1, 2).view(1, 1, 2, 2),
            F.conv2d(img, k, stride=2),
            atol=1e-06,
        )
    )
    ma = torch.cumsum(x, 0)
    ma[3:] = ma[3:] - ma[:-3].clone()
    log(ma[2:] / 3)
    a = x.as_strided((4, 3), (2, 1))
    log(a)


def confusion_matrix(log, refused):
    y = torch.tensor([0, 1, 2, 2, 1, 0, 2])
    p = torch.tensor([0, 2, 2, 2, 1, 1, 0])
    n = 3
    cm = torch.bincount(y * n + p, minlength=n**2).reshape(n, n)
    log(cm)
    tp = cm.diag()
    prec = tp / cm.sum(0)
    rec = tp / cm.sum(1)
    f1 = 2 * prec * rec / (prec + rec)
    log(prec, rec, f1, (tp.sum() / cm.sum()).item())
    cm2 = torch.zeros(n, n, dtype=torch.int64)
    cm2.index_put_((y, p), torch.tensor(1), accumulate=True)
    log(cm2)
    oh = torch.zeros(7, n).scatter_(1, y.unsqueeze(1), 1)
    log(oh, oh.t() @ F.one_hot(p, n).float())
    acc = (y == p).float().mean()
    log(acc, (y == p).sum().item(), y.eq(p).sum().item() / y.size(0))
    _, top = drawn(7, 3).topk(2, dim=1)
    log(top.eq(y.view(-1, 1).expand_as(top)).any(1).float().mean() * 100.0)
    un, cnt = torch.unique(y, return_counts=True)
    log(un, cnt)
    refused(lambda: torch.bincount(torch.tensor([-1, 2])))


def losses_by_hand(log, refused):
    x = drawn(4, 3, grad=True)
    y = torch.tensor([0, 2, 1, 1])

    def smooth(x, y, eps=0.1):
        n = x.size(-1)
        lp = F.log_softmax(x, dim=-1)
        loss = -lp.sum(dim=-1).mean()
        nll = F.nll_loss(lp, y)
        return eps * loss / n + (1 - eps) * nll

    log(smooth(x, y), F.cross_entropy(x, y, label_smoothing=0.1))
    ce = F.cross_entropy(x, y, reduction="none")
    pt = torch.exp(-ce)
    focal = (0.25 * (1 - pt) ** 2 * ce).mean()
    focal.backward()
    log(focal, x.grad)
    x.grad = None
    p = torch.sigmoid(x)
    t = F.one_hot(y, 3).float()
    inter = (p * t).sum(dim=(0, 1))
    dice = 1 - (2.0 * inter + 1.0) / (p.sum() + t.sum() + 1.0)
    dice.backward()
    log(dice, x.grad)
    bce = F.binary_cross_entropy_with_logits(x, t, pos_weight=torch.tensor([1.0, 2.0, 3.0]))
    log(bce)
    a, b, c = (drawn(4, 3, seed=1), drawn(4, 3, seed=2), drawn(4, 3, seed=3))
    log(
        F.triplet_margin_loss(a, b, c),
        F.cosine_similarity(a, b),
        F.cosine_embedding_loss(a, b, torch.tensor([1, -1, 1, -1])),
    )
    z = F.normalize(torch.cat([a, b]), dim=1)
    sim = z @ z.T / 0.5
    sim.fill_diagonal_(-9000000000000000.0)
    lab = torch.cat([torch.arange(4) + 4, torch.arange(4)])
    log(F.cross_entropy(sim, lab))
    log(F.kl_div(F.log_softmax(a / 2, 1), F.softmax(b / 2, 1), reduction="batchmean") * 4)
    lam = 0.3
    perm = torch.tensor([2, 0, 3, 1])
    mx = lam * a + (1 - lam) * a[perm]
    log(lam * F.cross_entropy(mx, y) + (1 - lam) * F.cross_entropy(mx, y[perm]))
    mu, lv = (a, b)
    log(-0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp()))
    log(
        F.gaussian_nll_loss(a, b, lv.exp()),
        F.poisson_nll_loss(a, t),
        nn.SoftMarginLoss()(a, torch.sign(b)),
    )
    refused(lambda: F.cross_entropy(x, torch.tensor([0, 1, 5, 0])))
    refused(lambda: F.cross_entropy(x, y.float()))
    refused(lambda: F.nll_loss(x, y[:2]))
    refused(lambda: F.binary_cross_entropy(x, t))
    log(F.mse_loss(a, b[:1]))


def graph_nn_gcn(log, refused):
    edge = torch.tensor([[0, 1, 2, 0, 3], [1, 2, 0, 3, 2]])
    x = drawn(4, 3, grad=True)
    W = drawn(3, 2, seed=1, grad=True)
    N = 4
    deg = torch.zeros(N).scatter_add_(0, edge[1], torch.ones(5))
    h = x @ W
    agg = torch.zeros(N, 2).index_add_(0, edge[1], h[edge[0]])
    out = agg / deg.clamp(min=1)[:, None]
    A = torch.zeros(N, N)
    A[edge[0], edge[1]] = 1
    A = A + torch.eye(N)
    D = A.sum(1).pow(-0.5).diag()
    out2 = (D @ A @ D @ h).relu()
    (out.sum() + out2.sum()).backward()
    log(out, out2, x.grad, W.grad)
    mx = torch.full((N, 2), -1000000000.0).scatter_reduce(
        0, edge[1][:, None].expand(-1, 2), h[edge[0]], "amax"
    )
    log(mx)
    e = torch.tensor([1.0, 2, 3, 4, 5])
    ex = e.exp()
    den = torch.zeros(N).index_add(0, edge[1], ex)
    log(ex / den[edge[1]])
    idx = torch.sort(edge[1], stable=True)
    log(idx[1])
    log(
        torch.unique_consecutive(edge[1].sort()[0], return_counts=True),
        A.nonzero(as_tuple=True),
        A.nonzero().t(),
    )
