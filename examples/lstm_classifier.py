"""An LSTM that reads pieces of Python's documentation, of any length, and names the page.

Beyond its length a piece changes no state. The compiled step and the eager one take turns.
"""

from pydoc_data.topics import topics

import numpy as np

import staticflow as sf
from staticflow import nn

PAGES = ("formatstrings", "operator-summary", "customization")
TEXTS = [topics[page].encode("ascii", "replace") for page in PAGES]
SHORTEST, LONGEST = 20, 60

example_inputs = ("text: i64[N=32, T=60] < 128", "lengths: i64[N] <= T", "pages: i64[N] < 3")
optimizer = "adam(lr=2e-2)"
loss = nn.functional.cross_entropy


class Classifier(nn.Module):
    """Characters (N, T) and the lengths (N,) to scores (N, pages)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(128, 16)
        self.read = nn.LSTM(16, 48, batch_first=True)
        self.decide = nn.Linear(48, len(PAGES))

    def forward(self, text, lengths):
        _, (last, _) = self.read(self.embed(text), lengths=lengths)
        return self.decide(last[0])


def batches(seed, count=32):
    """Random pieces without end: padded characters, lengths, and the numbers of the pages."""
    random = np.random.default_rng(seed)
    while True:
        pages = random.integers(0, len(PAGES), count)
        lengths = random.integers(SHORTEST, LONGEST + 1, count)
        text = np.zeros((count, lengths.max()), np.int64)
        for row, (page, length) in enumerate(zip(pages, lengths, strict=True)):
            start = random.integers(0, len(TEXTS[page]) - length)
            text[row, :length] = list(TEXTS[page][start : start + length])
        yield text, lengths, pages


def main(steps: int = 400) -> list[float]:
    """Train for some steps; returns the losses."""
    sf.manual_seed(0)
    model, data = Classifier(), batches(0)
    optimiser = sf.optim.Adam(model.parameters(), lr=2e-2)
    schedule = sf.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    shapes = (("N", "T"), ("N",), ("N",))
    text, lengths, pages = (sf.placeholder(shape, "int64") for shape in shapes)
    cost = loss(model(text, lengths), pages)
    grads, _ = nn.utils.clip_grad_norm(optimiser.gradients(cost), 1.0)
    static_step = sf.compile([text, lengths, pages], cost, updates=optimiser.updates(grads))

    def eager_step(*arrays):
        text, lengths, pages = map(sf.from_numpy, arrays)
        optimiser.zero_grad()
        cost = loss(model(text, lengths), pages)
        cost.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return cost

    losses = []
    for step in range(1, steps + 1):
        run = eager_step if step % 50 < 5 else static_step
        losses.append(run(*next(data)).item())
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: mean loss of 50 steps {np.mean(losses[-50:]):.3f}")
    text, lengths, pages = map(sf.from_numpy, next(batches(1, 500)))
    right = (model(text, lengths).argmax(1) == pages).float().mean().item()
    print(f"{right:.0%} of 500 pieces right; compiled {static_step.compile_count} time")
    return losses


if __name__ == "__main__":
    main()
