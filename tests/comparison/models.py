"""Models to compare, as a user's file has them."""

from __future__ import annotations

import random

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F

example_inputs = ("x: f32[N=4, 3]", "y: f32[N, 2]")


def loss(output, y):
    return F.mse_loss(output, y)


def optimizer(parameters):
    return sf.optim.Adam(parameters, lr=0.01)


class Plain(nn.Module):
    def __init__(self, hidden=5):
        super().__init__()
        self.first, self.second = nn.Linear(3, hidden), nn.Linear(hidden, 2)

    def forward(self, x):
        return self.second(self.first(x).tanh())


def make_plain():
    return Plain(hidden=7)


class Dropping(Plain):
    def forward(self, x):
        return self.second(F.dropout(self.first(x), 0.5, self.training))


class Normed(Plain):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        return self.second(self.norm(self.first(x)).relu())


class Shared(nn.Module):
    """One layer twice, by two names."""

    def __init__(self):
        super().__init__()
        self.a = self.b = nn.Linear(3, 3)
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        return self.out(self.b(self.a(x).tanh()))


class Frozen(Plain):
    def __init__(self):
        super().__init__()
        self.first.requires_grad_(False)


class AllFrozen(Plain):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)


class Bare(nn.Module):
    """A model without parameters."""

    def forward(self, x):
        return x[:, :2] * 2


class Branching(Plain):
    def forward(self, x):
        if x.sum() > 0:  # THE BRANCH
            return super().forward(x)
        return -super().forward(x)


class RandomDepth(Plain):
    def forward(self, x):
        for _ in range(random.choice((0, 1, 2))):
            x = x.tanh()  # ONCE OR NOT
        return super().forward(x)


class Exploding(Plain):
    """Its loss overflows, and then is a NaN, in both modes."""

    def forward(self, x):
        return super().forward(x) * 1e12


class Surprised(nn.Module):
    """A logarithm of chances that round to 0 eagerly."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(sf.tensor(1e3))

    def forward(self, x):
        return -(x * self.scale).softmax(dim=1).log().mean()


class Words(nn.Module):
    """Two inputs of integers."""

    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(11, 4), nn.Embedding(6, 4)
        self.out = nn.Linear(4, 11)

    def forward(self, words, places):
        return self.out(self.word(words) + self.place(places)).flatten(0, 1)


class Pair(Plain):
    """An output that is a tuple."""

    def forward(self, x):
        y = super().forward(x)
        return y, x


class Repeating(Plain):
    """A layer that is used as often as an input says."""

    def __init__(self):
        super().__init__()
        self.middle = nn.Linear(5, 5)

    def forward(self, x, repeats):
        h = sf.fori_loop(0, repeats, lambda i, h: self.middle(h).tanh(), self.first(x))
        return self.second(h)


class Printing(Plain):
    def forward(self, x):
        print("x has", x.shape)
        return super().forward(x)


class Tired(Plain):
    """A model that fails in the third step."""

    calls = 0

    def forward(self, x):
        if type(x) is sf.Tensor:
            self.calls += 1
        if self.calls > 2:
            raise RuntimeError("tired")  # AFTER SOME STEPS
        return super().forward(x)


class Counts(Plain):
    """An output of integers, which has no derivative."""

    def forward(self, x):
        return super().forward(x).argmax(dim=1)


class Silent(Plain):
    def forward(self, x):
        super().forward(x)


class Recurrent(nn.Module):
    """An output of several open sizes."""

    def __init__(self):
        super().__init__()
        self.read = nn.RNN(3, 2, batch_first=True)

    def forward(self, x):
        return self.read(x)[0]


class Flattened(Recurrent):
    """An output in which two open sizes are one, as that of a language model often is."""

    def forward(self, x):
        return super().forward(x).reshape(-1, 2)


def needs(width):
    return nn.Linear(3, width)


def no_model():
    return 3


NUMBER = 3
