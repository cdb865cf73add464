"""Further programs, of losses, distances, norms, recurrences, searches, images and optimisers."""

import math

from open_programs import LENGTHS, PROGRAMS, B, D, T, integers, lengths_mask, program

import staticflow as sf
from staticflow.nn import functional as F

__all__ = ["PROGRAMS"]

# -- losses
# -----------------------------------------------------------------------------------------


@program((B, T, 7), integers(7, B, T))
def token_cross_entropy(logits, targets):
    return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), label_smoothing=0.1)


@program((B, T, 7), integers(7, B, T))
def token_cross_entropy_of_channels(logits, targets):
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=0)


@program((B, T, 7), integers(7, B, T), LENGTHS)
def masked_cross_entropy(logits, targets, lengths):
    each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    mask = lengths_mask(lengths, logits.shape[1]).flatten()
    return (each * mask).sum() / mask.sum()


@program((B, 7), (B, 7))
def soft_cross_entropy(logits, teacher):
    t = 2.0
    return (
        F.kl_div(F.log_softmax(logits / t, -1), F.softmax(teacher / t, -1), reduction="batchmean")
        * t
        * t
    )


@program((B, 7), (B, 7))
def smoothed_probabilities(logits, p):
    return F.cross_entropy(logits, p.softmax(-1), label_smoothing=0.2, reduction="sum")


@program((6, D), (6, D))
def info_nce(a, b):
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    logits = a @ b.t() / 0.07
    labels = sf.arange(a.shape[0])
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


@program((6, D), integers(3, 6))
def supervised_contrastive(x, labels):
    x = F.normalize(x, dim=1)
    n = x.shape[0]
    alone = sf.eye(n, dtype=sf.bool)
    same = (labels[:, None] == labels) & ~alone
    log_p = (x @ x.T).masked_fill(alone, -1e9).log_softmax(1)
    return -(log_p * same).sum(1) / same.sum(1).clamp(min=1)


@program((6, D), (6, D), (6, D))
def triplet(a, p, n):
    near, far = (a - p).pow(2).sum(-1).sqrt(), (a - n).norm(dim=-1)
    return F.relu(near - far + 1).mean(), F.triplet_margin_loss(a, p, n)


@program((B, 1, 6, 6), (B, 1, 6, 6))
def dice(logits, target):
    p, target = logits.sigmoid().flatten(1), (target > 0).float().flatten(1)
    return 1 - (2 * (p * target).sum(1) + 1) / (p.sum(1) + target.sum(1) + 1)


@program((6, 4), integers(2, 6, 4))
def focal(logits, target):
    y = target.to(logits.dtype)
    p = sf.where(y == 1, logits.sigmoid(), 1 - logits.sigmoid())
    bce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    return ((1 - p) ** 2 * bce).mean()


@program((6, 4), (6, 4))
def huber_by_hand(x, y):
    d = (x - y).abs()
    return sf.where(d < 1, 0.5 * d * d, d - 0.5).mean() - F.smooth_l1_loss(x, y)


@program((6, 3), (6, 3))
def gaussian_likelihood(mean, log_var):
    kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum(-1)
    return kl.mean(), 0.5 * (math.log(2 * math.pi) + log_var + mean**2 / log_var.exp()).sum()


@program((6, D), (6, D))
def barlow_twins(a, b):
    a, b = ((x - x.mean(0)) / x.std(0) for x in (a, b))
    c = a.T @ b / a.shape[0]
    on = (c.diagonal() - 1).pow(2).sum()
    off = c.pow(2).sum() - c.diagonal().pow(2).sum()
    return on + 0.005 * off


@program((6, 4))
def pairwise_ranking(x):
    d = x.unsqueeze(1) - x.unsqueeze(0)
    upper = sf.triu(sf.ones(x.shape[0], x.shape[0]), diagonal=1)
    return (F.softplus(-d).mean(-1) * upper).sum() / upper.sum()


# -- distances
# --------------------------------------------------------------------------------------


@program((6, D), (4, D))
def squared_distances(x, y):
    xx, yy = (x * x).sum(1, keepdim=True), (y * y).sum(1)
    return (xx + yy - 2 * x @ y.T).clamp(min=0), sf.cdist(x, y)


@program((6, D), (4, D))
def nearest_centres(x, centres):
    d = ((x[:, None] - centres[None]) ** 2).sum(-1)
    value, index = d.min(1)
    return value, centres[index], F.one_hot(index, 4).float().mean(0)


@program((6, D), (4, D))
def soft_k_means_step(x, centres):
    w = (-sf.cdist(x, centres)).softmax(1)
    return (w.t() @ x) / w.sum(0).unsqueeze(-1)


@program((6, D))
def cosine_matrix(x):
    x = x / x.norm(dim=1, keepdim=True).clamp_min(1e-8)
    sims = x @ x.T
    return sims.fill_diagonal_(0).topk(2, dim=1).values


@program((6, D))
def kernel_matrix(x):
    d = sf.cdist(x, x).pow(2)
    k = sf.exp(-d / (2 * d.detach().mean()))
    n = k.shape[0]
    centre = sf.eye(n) - 1 / n
    return (centre @ k @ centre).trace() / (n - 1) ** 2


@program((6, 3))
def covariance(x):
    c = x - x.mean(0, keepdim=True)
    return c.T @ c / (x.shape[0] - 1), sf.cov(x.T), sf.corrcoef(x.T)


# -- norms
# ------------------------------------------------------------------------------------------


@program((B, T, D), (D,))
def rms_norm(x, scale):
    return x * sf.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale


@program((B, T, D), (D,), (D,))
def layer_norm_both_ways(x, w, b):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    mine = (x - mean) / (var + 1e-5).sqrt() * w + b
    return mine, F.layer_norm(x, (x.shape[-1],), w, b)


@program((B, 4, 6, 6))
def group_norm_by_hand(x):
    b, c, h, w = x.shape
    g = x.view(b, 2, -1)
    g = (g - g.mean(-1, keepdim=True)) / (g.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    return g.view(b, c, h, w) - F.group_norm(x, 2)


@program((B, 4, 6, 6))
def batch_norm_by_hand(x):
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    return (x - mean[None, :, None, None]) / sf.sqrt(var[:, None, None] + 1e-5)


@program((D, 6))
def spectral_norm_step(w):
    u = F.normalize(sf.ones(w.shape[0]), dim=0)
    for _ in range(3):
        v = F.normalize(w.t() @ u, dim=0)
        u = F.normalize(w @ v, dim=0)
    return w / (u @ w @ v)


# -- recurrences
# ------------------------------------------------------------------------------------


@program((T, B, 4), (B, 6), (4, 6), (6, 6))
def rnn(xs, h, w, u):
    def cell(h, x):
        h = sf.tanh(x @ w + h @ u)
        return h, h

    return sf.scan(cell, h, xs)


@program((T, B, 4), (B, 6), (4, 18), (6, 18))
def gru(xs, h, w, u):
    def cell(h, x):
        xr, xz, xn = (x @ w).chunk(3, 1)
        hr, hz, hn = (h @ u).chunk(3, 1)
        z = (xz + hz).sigmoid()
        n = (xn + (xr + hr).sigmoid() * hn).tanh()
        h = (1 - z) * n + z * h
        return h, h

    return sf.scan(cell, h, xs)[1].mean(0)


@program((B, T, 4), (4, 24), (6, 24))
def lstm_batch_first(x, w, u):
    def cell(state, x):
        h, c = state
        i, f, g, o = (x @ w + h @ u).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h

    start = x.new_zeros(x.shape[0], u.shape[0])
    return sf.scan(cell, (start, start), x.transpose(0, 1))[1].transpose(0, 1)


@program((T, B), (B,))
def exponential_average(xs, start):
    return sf.scan(lambda m, x: (0.9 * m + 0.1 * x, m), start, xs)[1]


@program((T, B, D), (T, B, D))
def state_space(a, b):
    def both(x, y):
        return x[0] * y[0], y[0] * x[1] + y[1]

    return sf.associative_scan(both, (a.sigmoid(), b))[1]


@program((B, T, 7))
def forward_algorithm(logits):
    def step(alpha, scores):
        alpha = sf.logsumexp(alpha[:, :, None] + 0.1, dim=1) + scores
        return alpha, None

    emissions = logits.log_softmax(-1).transpose(0, 1)
    return sf.scan(step, emissions[0], emissions[1:])[0].logsumexp(-1)


@program((T, 4), (4, 4))
def viterbi(emissions, transitions):
    def step(score, e):
        best = (score[:, None] + transitions).max(0)
        return best.values + e, best.indices

    score, back = sf.scan(step, emissions[0], emissions[1:])
    last = score.argmax()
    path = sf.scan(lambda at, row: (row[at], row[at]), last, back, reverse=True)[1]
    return score.max(), path


# -- searches and draws by values
# -------------------------------------------------------------------


@program((B, 2, 7), (B, 2))
def beam_step(log_p, scores):
    total = (scores[..., None] + log_p.log_softmax(-1)).flatten(1)
    best, index = total.topk(2, dim=1)
    return best, index // log_p.shape[-1], index % log_p.shape[-1]


@program((B, 7))
def top_p(logits):
    values, order = logits.softmax(-1).sort(-1, descending=True)
    drop = values.cumsum(-1) - values > 0.8
    kept = values.masked_fill(drop, 0.0)
    return sf.zeros_like(logits).scatter(1, order, kept / kept.sum(-1, keepdim=True))


@program((B, 7))
def top_k_filter(logits):
    least = logits.topk(3).values[:, -1:]
    return logits.where(logits >= least, sf.tensor(-1e9)).softmax(-1)


@program((6, 4), (6,))
def overlaps(boxes, scores):
    a = sf.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() + 0.1], 1)
    low, high = sf.maximum(a[:, None, :2], a[:, :2]), sf.minimum(a[:, None, 2:], a[:, 2:])
    inner = (high - low).clamp(min=0).prod(-1)
    area = (a[:, 2:] - a[:, :2]).prod(-1)
    iou = inner / (area[:, None] + area - inner)
    return iou, iou[scores.argsort(descending=True)].triu(1).amax(0)


@program((B, T, 4))
def routed_experts(x):
    flat = x.reshape(-1, x.shape[-1])
    weight, chosen = flat.softmax(-1).topk(2)
    gates = sf.zeros_like(flat).scatter(1, chosen, weight / weight.sum(-1, keepdim=True))
    load = F.one_hot(chosen, 4).sum((0, 1)) / flat.shape[0]
    return gates.view(x.shape), (gates.mean(0) * load).sum()


@program((B, T))
def vector_quantised(x):
    levels = sf.linspace(-1, 1, 5)
    index = (x.unsqueeze(-1) - levels).abs().argmin(-1)
    q = levels[index]
    return x + (q - x).detach()


# -- images
# -----------------------------------------------------------------------------------------


@program((B, 3, 8, 8))
def patches(x):
    b, c, h, w = x.shape
    p = 4
    return x.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


@program((B, 4, 6, 6))
def pixel_shuffle_and_squeeze(x):
    s = x.mean((2, 3))
    gate = (s @ s.new_ones(4, 4)).sigmoid()
    return F.pixel_shuffle(x * gate[:, :, None, None], 2), F.adaptive_avg_pool2d(x, 1).flatten(1)


@program((B, 3, 8, 6), (5, 3, 3, 3))
def convolved_and_resized(x, w):
    y = F.conv2d(x, w, padding=1).relu()
    return F.interpolate(F.max_pool2d(y, 2), scale_factor=2), x.flip(-1) + x.mean(1, keepdim=True)


@program((B, 3, 8), (5, 3, 4))
def convolved_to_the_same_length(x, w):
    return F.conv1d(x, w, padding="same")


@program((B, 2, 6, 6))
def coordinates(x):
    b, _, h, w = x.shape
    rows = sf.linspace(-1, 1, h).view(1, 1, h, 1).expand(b, 1, h, w)
    columns = sf.linspace(-1, 1, w).view(1, 1, 1, w).expand(b, 1, h, w)
    return sf.cat([x, rows, columns], 1), (x.flatten(2).softmax(-1).view_as(x) * rows).sum((2, 3))


@program((B, 1, 6, 6))
def total_variation(x):
    return (x[:, :, 1:] - x[:, :, :-1]).abs().mean() + (x[..., 1:] - x[..., :-1]).pow(2).mean()


# -- steps of optimisers, numbers
# -------------------------------------------------------------------


@program((6, 4), (4, 2), (6, 2))
def gradient_steps(x, w, y):
    for _ in range(3):
        w = w - 0.1 * (x.t() @ (x @ w - y)) * 2 / x.shape[0]
    return ((x @ w - y) ** 2).mean()


@program((4,), (4,), (4,))
def adam_by_hand(w, m, v):
    for step in range(1, 3):
        g = 2 * w
        m, v = 0.9 * m + 0.1 * g, 0.99 * v.abs() + 0.01 * g * g
        w = w - 0.01 * (m / (1 - 0.9**step)) / ((v / (1 - 0.99**step)).sqrt() + 1e-8)
    return w


@program((6, 4), (6, 1))
def ridge(x, y):
    d = x.shape[1]
    return sf.linalg.solve(x.T @ x + 0.1 * sf.eye(d), x.T @ y)


@program((5, 5))
def power_iteration(a):
    a = a @ a.T
    v = sf.ones(a.shape[0]) / a.shape[0] ** 0.5
    v = sf.fori_loop(0, 20, lambda i, v: F.normalize(a @ v, dim=0), v)
    return v @ a @ v


@program((T, T))
def sinkhorn(scores):
    def iteration(i, x):
        x = x - x.logsumexp(1, keepdim=True)
        return x - x.logsumexp(0, keepdim=True)

    return sf.fori_loop(0, 5, iteration, scores).exp()


@program((6, 4))
def standard_scores(x):
    n = x.shape[0]
    z = (x - x.mean(0)) / (x.std(0) + 1e-6)
    return z.cumsum(0) / sf.arange(1, n + 1)[:, None], z.sort(0).values[n // 2], z.median(0).values


@program((B, T))
def discounted_returns(rewards):
    t = rewards.shape[1]
    gains = 0.9 ** (sf.arange(t)[None] - sf.arange(t)[:, None]).clamp(min=0)
    return rewards @ gains.triu().T.to(rewards.dtype)


@program((B, T), (B, T))
def advantages(rewards, values):
    after = sf.cat([values[:, 1:], values.new_zeros(values.size(0), 1)], 1)
    delta = rewards + 0.9 * after - values
    return sf.scan(
        lambda a, d: (d + 0.8 * a, d + 0.8 * a), sf.zeros_like(delta[:, 0]), delta.T, reverse=True
    )[1].T
