"""A transformer that learns to turn sequences round, of any length, in both modes by turns.

Each token looks at all others (Vaswani et al. 2017, "Attention is all you need"); where to look is
told by positions counted from either end. One compiled step serves all lengths and batches.
"""

import numpy as np

import staticflow as sf
from staticflow import nn

TOKENS, WIDTH, LONGEST = 10, 32, 12

example_inputs = ("tokens: i64[N=32, T=12] < 10", "places: i64[T] < 12")
optimizer = "adam(lr=4e-3)"


def loss(scores, tokens):
    """How badly the scores foretell the tokens in the other order."""
    return nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flip(1).flatten())


class Reverser(nn.Module):
    """Tokens (N, T) to scores (N, T, TOKENS) of the token that stands there in the other order."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(TOKENS, WIDTH)
        self.from_front = nn.Embedding(LONGEST, WIDTH)
        self.from_back = nn.Embedding(LONGEST, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True)
        self.score = nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens, places):
        h = self.token(tokens) + self.from_front(places) + self.from_back(places.flip(0))
        return self.score(self.layer(h))


def main(steps: int = 400) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    random = np.random.default_rng(0)
    model = Reverser()
    optimiser = sf.optim.Adam(model.parameters(), lr=4e-3)

    tokens = sf.placeholder(("N", "T"), "int64", name="tokens")
    places = sf.placeholder(("T",), "int64", name="places")
    cost = loss(model(tokens, places), tokens)
    static_step = sf.compile([tokens, places], cost, updates=optimiser.minimize(cost))

    def eager_step(tokens, places):
        tokens, places = sf.from_numpy(tokens), sf.from_numpy(places)
        optimiser.zero_grad()
        cost = loss(model(tokens, places), tokens)
        cost.backward()
        optimiser.step()
        return cost

    losses = []
    for step in range(1, steps + 1):
        length = random.integers(2, LONGEST + 1)
        data = random.integers(0, TOKENS, (random.integers(24, 49), length)), np.arange(length)
        run = eager_step if step % 20 == 0 else static_step
        losses.append(run(*data).item())
        if step % 50 == 0:
            print(f"step {step}: mean loss of 50 steps {np.mean(losses[-50:]):.3f}")
    word = sf.tensor([[3, 1, 4, 1, 5, 9, 2]])
    print(f"{word.tolist()} turns into {model(word, sf.arange(7)).argmax(-1).tolist()}")
    print(f"compiled {static_step.compile_count} time")
    return losses


if __name__ == "__main__":
    main()
