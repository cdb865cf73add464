"""Models as PyTorch's users write them: small ones of each kind, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A residual block, as torchvision writes it."""

    def __init__(self, inner: int, outer: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        short = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.downsample = short if stride != 1 or inner != outer else None

    def forward(self, x: Any) -> Any:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2 = nn.Sequential(Block(4, 4)), Block(4, 8, 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layer2(self.layer1(x))), 1))


class Squeezed(nn.Module):
    """An inverted bottleneck with squeeze and excitation, as in EfficientNet."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.bn = nn.Conv2d(3, 6, 1, bias=False), nn.BatchNorm2d(6)
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.fc1, self.fc2 = nn.Conv2d(6, 2, 1), nn.Conv2d(2, 6, 1)
        self.project = nn.Conv2d(6, 3, 1)

    def forward(self, x: Any) -> Any:
        h = F.silu(self.depthwise(F.hardswish(self.bn(self.expand(x)))))
        scale = torch.sigmoid(self.fc2(F.relu6(self.fc1(F.adaptive_avg_pool2d(h, 1)))))
        return x + self.project(h * scale)


class GPT(nn.Module):
    """A language model of one layer, whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, 8), nn.Embedding(9, 8)
        self.ln1, self.ln2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)
        self.fc, self.out = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.wte.weight
        self.register_buffer("mask", torch.tril(torch.ones(9, 9))[None, None], persistent=False)

    def forward(self, tokens: Any) -> Any:
        b, t = tokens.shape
        x = self.wte(tokens) + self.wpe(torch.arange(t))
        q, k, v = (p.view(b, t, 2, 4).transpose(1, 2) for p in self.qkv(self.ln1(x)).split(8, 2))
        att = (q @ k.transpose(-2, -1)) * 0.5
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).contiguous().view(b, t, 8))
        return self.head(x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh")))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)
        self.dec = nn.Linear(2, 6)

    def forward(self, x: Any, noise: Any) -> Any:
        h = F.elu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        out = torch.sigmoid(self.dec(mu + torch.exp(0.5 * logvar) * noise))
        return {"out": out, "kl": (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()}


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.up, self.mix = nn.ConvTranspose2d(4, 3, 2, 2), nn.Conv2d(6, 2, 3, padding=1)

    def forward(self, x: Any) -> Any:
        a = self.down1(x).relu()
        b = self.down2(F.max_pool2d(a, 2)).relu()
        y = self.mix(torch.cat([self.up(b), a], 1))
        return F.interpolate(y, scale_factor=2, mode="bilinear")


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8)
        self.tokens = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))
        self.channels = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 8))

    def forward(self, x: Any) -> Any:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return (x + self.channels(x)).mean(1)


class WaveNet(nn.Module):
    """Gated dilated convolutions, padded on the left."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, 4, 1)
        self.gates = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**i) for i in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(4, 4, 1) for _ in range(3))
        self.end = nn.Conv1d(4, 2, 1)

    def forward(self, x: Any) -> Any:
        h, total = self.start(x), 0
        for i, (gate, skip) in enumerate(zip(self.gates, self.skips, strict=True)):
            f, g = gate(F.pad(h, (2**i, 0))).chunk(2, 1)
            z = torch.tanh(f) * torch.sigmoid(g)
            total, h = total + skip(z), h + z
        return self.end(F.leaky_relu(total))


class Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(9, 4, mode="mean")

    def forward(self, tokens: Any, offsets: Any) -> Any:
        return self.bag(tokens, offsets)


class Model(NamedTuple):
    """What makes a model, what makes its arguments for a size, the dims of each argument that have
    that size, and whether it is in training."""

    make: Callable[[], Any]
    arguments: Callable[[int], tuple[Any, ...]]
    open_dims: tuple[tuple[int, ...], ...] = ((0,),)
    training: bool = False


def _normal(*shape: int) -> Any:
    return torch.randn(shape)


def _layer(cls: Any, **options: Any) -> Callable[[], Any]:
    return lambda: cls(8, 2, 16, dropout=0.0, batch_first=True, **options)


def _groups() -> Any:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Mish(), nn.InstanceNorm2d(4, affine=True)
    )


MODELS = {
    "mlp": Model(lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), lambda n: (_normal(n, 3),)),
    "resnet": Model(ResNet, lambda n: (_normal(n, 3, 24, 24),)),
    "resnet in training": Model(ResNet, lambda n: (_normal(n, 3, 24, 24),), training=True),
    "efficientnet": Model(Squeezed, lambda n: (_normal(n, 3, 5, 5),), training=True),
    "encoder": Model(_layer(nn.TransformerEncoderLayer), lambda n: (_normal(n, 5, 8),), training=True),
    "norm first": Model(
        _layer(nn.TransformerEncoderLayer, norm_first=True, activation="gelu"),
        lambda n: (_normal(3, n, 8),), ((1,),),
    ),
    "decoder": Model(_layer(nn.TransformerDecoderLayer), lambda n: (_normal(n, 3, 8), _normal(n, 4, 8)), ((0,), (0,))),
    "attention": Model(lambda: nn.MultiheadAttention(8, 2), lambda n: tuple(_normal(m, n, 8) for m in (3, 4, 4)), ((1,), (1,), (1,))),
    "lstm": Model(lambda: nn.LSTM(3, 4, 2, batch_first=True), lambda n: (_normal(n, 3, 3),)),
    "gru": Model(lambda: nn.GRU(3, 4, bidirectional=True), lambda n: (_normal(3, n, 3),), ((1,),)),
    "gpt": Model(GPT, lambda n: (torch.randint(0, 11, (2, n)),), ((1,),), training=True),
    "vae": Model(VAE, lambda n: (_normal(n, 6), _normal(n, 2)), ((0,), (0,))),
    "unet": Model(UNet, lambda n: (_normal(n, 1, 8, 8),)),
    "mixer": Model(Mixer, lambda n: (_normal(n, 3, 8, 8),)),
    "wavenet": Model(WaveNet, lambda n: (_normal(2, 1, n),), ((2,),)),
    "groups": Model(_groups, lambda n: (_normal(n, 2, 6, 6),)),
    "bags": Model(Bags, lambda n: (torch.arange(n) % 9, torch.tensor([0, 1])), ((0,), ())),
}  # fmt: skip
"""The models."""
