"""Further programs, of layers, changes in place, indices and statistics; see `open_programs`."""

import math

import numpy as np
from open_programs import LENGTHS, B, D, T, integers, lengths_mask, program
from open_programs_losses import PROGRAMS

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F

# -- layers
# -----------------------------------------------------------------------------------------

__all__ = ["PROGRAMS"]

sf.manual_seed(5)
LSTM = nn.LSTM(D, 6, batch_first=True, bidirectional=True)
GRU = nn.GRU(D, 6, num_layers=2)
ENCODER = nn.TransformerEncoderLayer(D, 2, 16, dropout=0.0, batch_first=True)
HEADS = nn.MultiheadAttention(D, 2, batch_first=True)
NET = nn.Sequential(nn.Linear(D, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
IMAGES = nn.Sequential(
    nn.Conv2d(3, 4, 3, padding=1),
    nn.BatchNorm2d(4),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
)
SEQUENCES = nn.Sequential(nn.Conv1d(D, 6, 3, padding=2, dilation=2), nn.GroupNorm(2, 6), nn.SiLU())
WORDS = nn.Embedding(9, D, padding_idx=0)


@program((B, T, D))
def lstm_layer(x):
    out, (h, c) = LSTM(x)
    return out, h, c


@program((T, B, D))
def gru_layers(x):
    out, h = GRU(x)
    return out[-1], h


@program((B, T, D), LENGTHS)
def transformer_layer(x, lengths):
    return ENCODER(x, src_key_padding_mask=~lengths_mask(lengths, x.shape[1]))


@program((B, T, D))
def causal_layer(x):
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return ENCODER(x, src_mask=mask, is_causal=True)


@program((B, T, D), (B, 4, D))
def heads_and_weights(x, y):
    return HEADS(x, y, y)


@program((B, T, D))
def head_of_mean(x):
    return NET(x.mean(1)).log_softmax(-1), NET(x)[:, -1]


@program((B, 3, 8, 8))
def image_layers(x):
    return IMAGES(x)


@program((B, T, D))
def sequence_layers(x):
    return SEQUENCES(x.transpose(1, 2)).amax(-1)


@program(integers(9, B, T))
def bag_of_words(tokens):
    return WORDS(tokens).sum(1) / (tokens != 0).sum(1, keepdim=True).clamp(min=1)


# -- in place
# ---------------------------------------------------------------------------------------


@program((B, T, D))
def written_rows(x):
    y = x.clone()
    y[:, 0] = 0
    y[:, -1] += x[:, 0]
    y[..., 1::2] *= 2
    return y


@program((B, T), LENGTHS)
def written_by_mask(x, lengths):
    y = x * 1
    y[~lengths_mask(lengths, x.shape[1])] = -1.0
    return y.softmax(-1)


@program((B, T))
def accumulated(x):
    out = sf.zeros_like(x[0])
    for row in (x[0], x[1], x[2]):
        out += row**2
    return out.sqrt_().add_(1)


@program((6, D), integers(4, 6))
def histogram_of_rows(x, at):
    table = sf.zeros(4, x.shape[1])
    table.index_add_(0, at, x)
    counts = sf.zeros(4).scatter_add_(0, at, sf.ones(x.shape[0]))
    return table / counts.clamp_(min=1).unsqueeze(1)


@program((6, 6))
def zero_diagonal(x):
    y = x.clone()
    y[sf.arange(x.shape[0]), sf.arange(x.shape[0])] = 0
    y.diagonal().add_(1.0)
    return y


@program((T, D))
def filled_buffer(x):
    buffer = x.new_zeros(x.shape[0] + 2, x.shape[1])
    buffer[1:-1] = x
    return buffer[2:] - buffer[:-2]


# -- indices
# ----------------------------------------------------------------------------------------


@program((B, T), integers(5, B, T))
def gathered_and_scattered(x, index):
    index = index % x.shape[1]
    return x.gather(1, index), sf.zeros_like(x).scatter_add(1, index, x)


@program((B, T))
def ranks(x):
    return x.argsort(1).argsort(1), x.sort(1, descending=True).values.cumsum(1)


@program((9,), (4,))
def buckets(x, edges):
    edges = edges.sort().values
    return (
        sf.searchsorted(edges, x),
        sf.bucketize(x, edges),
        F.one_hot(sf.searchsorted(edges, x), 5),
    )


@program((6, D))
def pairs_of_rows(x):
    i, j = sf.meshgrid(sf.arange(x.shape[0]), sf.arange(x.shape[0]), indexing="ij")
    upper = (i < j).float()
    return ((x[i] - x[j]).norm(dim=-1) * upper).sum()


@program((B, T, D))
def every_other(x):
    return x[:, ::2], x[::2, 1:], x[..., -1], x[None, :, -2:], x.flip(1)[:, 1:]


@program((B, T, D), integers(3, 4))
def chosen_batches(x, which):
    return (
        x[which],
        x.index_select(0, which).mean(1),
        x[which, :2],
        sf.take_along_dim(x, x.argmax(1, keepdim=True), 1),
    )


@program((2, 3), (4,))
def outer_shapes(x, y):
    return sf.kron(x, x), x.unsqueeze(-1) * y, x.repeat(2, 2), sf.tile(y, (3,)), sf.outer(y, y)


@program((B, T))
def neighbours(x):
    left, right = F.pad(x, (1, 0))[:, :-1], F.pad(x, (0, 1))[:, 1:]
    peaks = (x > left) & (x > right)
    return sf.where(peaks, x, sf.zeros(())).sum(1), peaks.sum(), peaks.any(1)


@program((B, T))
def runs(x):
    up = (x[:, 1:] > x[:, :-1]).long()
    return up.cumsum(1) * up, sf.cummax(x, 1).values, x.logcumsumexp(1), x.cumprod(1)


# -- statistics
# -------------------------------------------------------------------------------------


@program((6, D))
def moments(x):
    z = (x - x.mean(0)) / x.std(0)
    return z.pow(3).mean(0), z.pow(4).mean(0) - 3, sf.var_mean(x, 0), x.var(correction=0)


@program((B, T))
def quantiles(x):
    return (
        x.quantile(0.5, dim=1),
        x.median(1).values,
        x.kthvalue(2, 1).values,
        x.nanmean(),
        x.aminmax(dim=1),
    )


@program((B, T), (B, T))
def correlation(x, y):
    x, y = x - x.mean(-1, keepdim=True), y - y.mean(-1, keepdim=True)
    return (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1)), F.cosine_similarity(x, y, dim=-1)


@program((B, 4, 6))
def softmax_statistics(x):
    p = x.softmax(1)
    entropy = -(p * p.log()).sum(1)
    return (
        entropy.mean(),
        p.max(1).values.mean(-1),
        (p.argmax(1) == 0).float().mean(),
        x.logsumexp((1, 2)),
    )


@program((9,))
def expected_error(scores):
    n = scores.numel()
    return (scores.sort().values - (sf.arange(n) + 0.5) / n).abs().mean() * math.pi / n**0.5


# -- losses and functions of functional
# -------------------------------------------------------------


@program((T, B, 5), LENGTHS)
def connectionist(logits, lengths):
    targets = sf.ones(logits.shape[1], 2, dtype=sf.int64)
    targets = targets + sf.arange(2)
    return F.ctc_loss(logits.log_softmax(-1), targets, lengths, sf.full((logits.shape[1],), 2))


@program((B, 3, 6, 6), (B, 4, 4, 2))
def sampled_grid(x, grid):
    return F.grid_sample(x, grid.tanh(), align_corners=False)


@program((B, 2, 6, 6))
def unfolded(x):
    columns = F.unfold(x, 2, stride=2)
    return columns.mean(1), F.fold(columns, (6, 6), 2, stride=2)


@program((B, 2, 8))
def resized_signal(x):
    return (
        F.interpolate(x, scale_factor=2.0, mode="linear"), F.avg_pool1d(x, 3, 1, 1),
        F.adaptive_max_pool1d(x, 2), F.pad(x, (2, 1), mode="reflect"),
    )  # fmt: skip


@program((6, 4), (6, 4))
def all_losses(x, y):
    p = y.softmax(-1)
    return (
        F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.huber_loss(x, y), F.poisson_nll_loss(x, y.abs()),
        F.gaussian_nll_loss(x, y, p), F.kl_div(x.log_softmax(-1), p, reduction="batchmean"),
        F.cosine_embedding_loss(x, y, sf.ones(x.shape[0])), F.hinge_embedding_loss(x, y.sign()),
        F.soft_margin_loss(x, y.sign()), F.margin_ranking_loss(x, y, sf.ones_like(x)),
        F.multi_margin_loss(x, x.detach().argmin(1)), F.nll_loss(x.log_softmax(1), y.argmax(1)),
    )  # fmt: skip


@program((6, 4))
def all_activations(x):
    return (
        F.glu(x), F.mish(x), F.hardswish(x), F.softsign(x), F.celu(x), F.selu(x), F.softmin(x, -1), F.logsigmoid(x),
        F.prelu(x, sf.tensor([0.2])), F.tanhshrink(x), F.normalize(x, p=1.0, dim=0), F.gelu(x, approximate="tanh"),
    )  # fmt: skip


@program((T, B, D), (2, B, D))
def lagged(xs, before):
    def step(c, x, y):
        return c + x.mean(), x + 0.5 * y[0] - 0.2 * y[1]

    return sf.scan(step, xs.new_zeros(()), xs, taps={"ys": (1, 2)}, ys_init=before)


@program((B, T, D), LENGTHS)
def ragged_scan(x, lengths):
    return sf.scan(
        lambda h, q: ((h * 0.5 + q).tanh(), h),
        sf.zeros_like(x[:, 0]),
        x.transpose(0, 1),
        lengths=lengths,
    )[0]


@program((T, D))
def newton(x):
    def iteration(y):
        return y - (y * y - x.abs() - 1) / (2 * y)

    return sf.while_loop(
        lambda y: ((y * y - x.abs() - 1).abs() > 1e-4).any(), iteration, x.abs() + 1
    )


@program((T, D), (D,))
def chosen_branch(x, w):
    return sf.cond(x.sum() > 0, lambda: x @ w, lambda: (x * 2) @ w - x.shape[0])


@program((B, T))
def numpy_names(x):
    a = np.concatenate([x, x], axis=1)
    return (
        np.where(a > 0, a, 0.1 * a),
        np.transpose(x),
        np.sum(np.exp(x), axis=1) / np.sqrt(x.shape[1]),
    )


@program((6, 3), (6,))
def least_squares(x, y):
    w = sf.linalg.lstsq(x, y[:, None]).solution
    hat = x @ sf.linalg.pinv(x)
    return w, hat.diagonal().sum(), sf.linalg.matrix_norm(x, "nuc")


@program((6, 3))
def principal_components(x):
    c = x - x.mean(0)
    values = sf.linalg.svdvals(c)
    eigen = sf.linalg.eigvalsh(c.T @ c)
    return values**2 / (x.shape[0] - 1), eigen.flip(0), values[0] / values.sum()


@program((4, 4))
def gaussian_log_density(a):
    cov = a @ a.T + sf.eye(a.shape[0])
    low = sf.linalg.cholesky(cov)
    z = sf.linalg.solve_triangular(low, a, upper=False)
    return -0.5 * (z * z).sum(0) - low.diagonal().log().sum(), sf.logdet(cov), sf.linalg.inv(cov)
