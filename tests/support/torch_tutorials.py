"""Models as PyTorch's tutorials write them, by name, and with them all models."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
import torch_models
from torch import nn
from torch_models import Model

__all__ = ["MODELS", "TUTORIALS"]


class Attention(nn.Module):
    """Additive attention (Bahdanau et al. 2015) of a decoder's state over an encoder's."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.Wa, self.Ua, self.Va = (nn.Linear(hidden, n) for n in (hidden, hidden, 1))

    def forward(self, query: Any, keys: Any) -> Any:
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        weights = F.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(weights, keys), weights


class Seq2Seq(nn.Module):
    """A GRU that reads a sentence, and one that writes another, looking at the first."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(9, 6), nn.Embedding(8, 6)
        self.encoder = nn.GRU(6, 6, batch_first=True)
        self.attention = Attention(6)
        self.decoder = nn.GRU(12, 6, batch_first=True)
        self.out = nn.Linear(6, 8)

    def forward(self, sentence: Any, translation: Any) -> Any:
        keys, hidden = self.encoder(self.source(sentence))
        outputs, looked = [], []
        for i in range(translation.size(1)):
            embedded = self.target(translation[:, i].unsqueeze(1))
            context, weights = self.attention(hidden.permute(1, 0, 2), keys)
            step, hidden = self.decoder(torch.cat((embedded, context), dim=2), hidden)
            outputs.append(self.out(step))
            looked.append(weights)
        scores = F.log_softmax(torch.cat(outputs, dim=1), dim=-1)
        return {"scores": scores, "hidden": hidden, "attention": torch.cat(looked, dim=1)}


class CharRNN(nn.Module):
    """Names classified letter by letter, by a cell that is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.i2h, self.h2h, self.h2o = nn.Linear(5, 7), nn.Linear(7, 7), nn.Linear(7, 3)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, line: Any) -> Any:
        hidden = torch.zeros(line.size(1), 7, dtype=line.dtype)
        for letter in line:
            hidden = torch.tanh(self.i2h(letter) + self.h2h(hidden))
        return self.softmax(self.h2o(hidden)), hidden


class Generator(nn.Module):
    """The generator of a DCGAN, and its discriminator behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(5, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
            nn.ConvTranspose2d(4, 3, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip
        self.critic = nn.Sequential(
            nn.Conv2d(3, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(4, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(8, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
        )  # fmt: skip
        self.apply(self.draw)

    @staticmethod
    def draw(module: Any) -> None:
        name = type(module).__name__
        if "Conv" in name:
            nn.init.normal_(module.weight.data, 0.0, 0.2)
        elif "BatchNorm" in name:
            nn.init.normal_(module.weight.data, 1.0, 0.2)
            nn.init.constant_(module.bias.data, 0)

    def forward(self, noise: Any) -> Any:
        image = self.main(noise)
        return image, self.critic(image).view(-1)


class Positions(nn.Module):
    def __init__(self, width: int, longest: int = 12) -> None:
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, 1, width)
        table[:, 0, 0::2] = torch.sin(position * rates)
        table[:, 0, 1::2] = torch.cos(position * rates)
        self.register_buffer("pe", table)

    def forward(self, x: Any) -> Any:
        return x + self.pe[: x.size(0)]


class TransformerLM(nn.Module):
    """A language model of an encoder under a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.pos, self.embedding = Positions(8), nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.linear = nn.Linear(8, 11)

    def forward(self, tokens: Any) -> Any:
        x = self.pos(self.embedding(tokens) * math.sqrt(8))
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(0)).to(x.dtype)
        return self.linear(self.encoder(x, mask, is_causal=True))


class Convolutional(nn.Module):
    """The autoencoder of pictures, which draws with the noise that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.Linear(64, 4)
        self.back, self.up = nn.Linear(2, 64), nn.ConvTranspose2d(4, 1, 3, 2, 1, output_padding=1)

    def forward(self, x: Any, noise: Any) -> Any:
        mean, log_var = self.fc(F.relu(self.conv(x)).flatten(1)).chunk(2, dim=1)
        z = mean + noise * torch.exp(0.5 * log_var)
        again = torch.sigmoid(self.up(F.relu(self.back(z)).view(-1, 4, 4, 4)))
        loss = F.binary_cross_entropy(again, torch.sigmoid(x), reduction="sum")
        kl = -0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp())
        return {"again": again, "loss": loss + kl}


class ChannelsLast(nn.Module):
    """The end of a ConvNeXt or Swin transformer: a pooling of pictures whose channels lie last."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.pool = (
            nn.Conv2d(1, 4, 3),
            nn.LayerNorm(4),
            nn.AdaptiveAvgPool2d(1),
        )

    def forward(self, x: Any) -> Any:
        y = self.norm(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.pool(y).flatten(1)


class NGram(nn.Module):
    """Words before a word, and words around one (CBOW), with the loss of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(12, 4, padding_idx=0)
        self.linear1, self.linear2 = nn.Linear(8, 6), nn.Linear(6, 12)
        self.around = nn.Linear(4, 12)

    def forward(self, context: Any, word: Any) -> Any:
        rows = self.embeddings(context)
        log_probs = F.log_softmax(self.linear2(F.relu(self.linear1(rows.view(-1, 8)))), dim=1)
        bag = F.cross_entropy(self.around(rows.sum(1)), word, label_smoothing=0.1)
        return F.nll_loss(log_probs, word), bag


class ActorCritic(nn.Module):
    """A policy and a value on one layer, with the loss of actions that were taken."""

    def __init__(self) -> None:
        super().__init__()
        self.affine1, self.action, self.value = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, states: Any, actions: Any, returns: Any) -> Any:
        x = F.relu(self.affine1(states))
        policy = torch.distributions.Categorical(
            F.softmax(self.action(x), dim=-1), validate_args=False
        )
        values = self.value(x).squeeze(-1)
        advantage = returns - values.detach()
        scaled = (advantage - advantage.mean()) / (advantage.std() + 0.1)
        loss = -(policy.log_prob(actions) * scaled).sum() + F.smooth_l1_loss(values, returns)
        return loss - 0.01 * policy.entropy().mean(), values


class InPlace(nn.Module):
    """Changes in place of what it has made, a running mean of its own, and a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        h = self.first(x).clone()
        h[:, ::2] *= 2
        h[:, 1].clamp_(min=0.1)
        h.masked_fill_(h > 1.5, 1.5)
        if self.training:
            self.mean.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
            self.calls += 1
        y = torch.zeros_like(h)
        y[:, 1:] = h[:, :-1]
        y.index_add_(1, torch.tensor([0, 2]), h[:, :2])
        return self.second(y - self.mean).tanh_()


class SpatialTransformer(nn.Module):
    """An affine grid that a small network finds, with which the image is sampled."""

    def __init__(self) -> None:
        super().__init__()
        self.find = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2, 2), nn.ReLU(True))
        self.theta = nn.Linear(18, 6)
        self.conv, self.fc = nn.Conv2d(1, 3, 3), nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        theta = self.theta(self.find(x).view(-1, 18)).view(-1, 2, 3)
        sampled = F.grid_sample(x, F.affine_grid(theta, x.size(), False), align_corners=False)
        return self.fc(F.adaptive_max_pool2d(F.relu(self.conv(sampled)), 1).flatten(1))


def _normal(*shape: int) -> Any:
    return torch.randn(shape)


def _whole(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape)


TUTORIALS = {
    "seq2seq": Model(Seq2Seq, lambda n: (_whole(9, n, 4), _whole(8, n, 3)), ((0,), (0,))),
    "char rnn": Model(CharRNN, lambda n: (_normal(4, n, 5),), ((1,),)),
    "dcgan": Model(Generator, lambda n: (_normal(n, 5, 1, 1),), training=True),
    "transformer lm": Model(TransformerLM, lambda n: (_whole(11, n, 2),), training=True),
    "transformer lm in evaluation": Model(TransformerLM, lambda n: (_whole(11, n, 2),)),
    "convolutional vae": Model(Convolutional, lambda n: (_normal(n, 1, 8, 8), _normal(n, 2)), ((0,), (0,))),
    "channels last": Model(ChannelsLast, lambda n: (_normal(n, 1, 8, 8),)),
    "ngram": Model(NGram, lambda n: (_whole(12, n, 2), _whole(12, n)), ((0,), (0,))),
    "actor critic": Model(ActorCritic, lambda n: (_normal(n, 4), _whole(2, n), _normal(n)), ((0,), (0,), (0,))),
    "in place": Model(InPlace, lambda n: (_normal(n, 4),), training=True),
    "spatial transformer": Model(SpatialTransformer, lambda n: (_normal(n, 1, 8, 8),)),
}  # fmt: skip
"""Those of the tutorials."""

MODELS = torch_models.MODELS | TUTORIALS
"""Those and the others."""
