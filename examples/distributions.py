"""Distributions at work: samples with gradients, choices without, and a density of two humps.

The classic uses: a variational autoencoder learns through its samples, a policy through the log
probability of what it chose, and a mixture density network says more than a mean.
"""

import staticflow as sf
from staticflow import distributions as dist
from staticflow import nn

example_inputs = ("x: f32[N=16, 8]",)
optimizer, loss = "adam(lr=0.05)", "mean"


class Autoencoder(nn.Module):
    """A variational autoencoder of 8 pixels, black or white, by way of 2 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(2, 8)

    def forward(self, x: sf.Tensor) -> sf.Tensor:
        """The bound on the negative log-likelihood (Kingma and Welling, 2014), a mean of rows."""
        mean, log_scale = self.encoder(x).chunk(2, dim=1)
        posterior = dist.Independent(dist.Normal(mean, log_scale.exp()), 1)
        prior = dist.Independent(dist.Normal(sf.zeros_like(mean), 1.0), 1)
        pixels = dist.Independent(dist.Bernoulli(logits=self.decoder(posterior.rsample())), 1)
        return (dist.kl_divergence(posterior, prior) - pixels.log_prob((x > 0).to(x.dtype))).mean()


def train_autoencoder() -> tuple[float, float]:
    """The first and the last bound, of steps that are one program for every number of rows."""
    model = Autoencoder()
    optimizer = sf.optim.Adam(model.parameters(), lr=0.05)
    x = sf.placeholder((None, 8), name="x")
    bound = model(x)
    step = sf.compile([x], bound, updates=optimizer.minimize(bound))
    patterns = sf.tensor([[1.0, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]).repeat(8, 1)
    bounds = [step(patterns).item() for _ in range(200)]
    return bounds[0], bounds[-1]


def train_policy() -> list[float]:
    """The chances of three levers, of which the last pays most, by REINFORCE (Williams, 1992)."""
    pays = sf.tensor([0.0, 0.2, 1.0])
    scores = sf.zeros(3, requires_grad=True)
    optimizer = sf.optim.SGD([scores], lr=0.5)
    for _ in range(60):
        policy = dist.Categorical(logits=scores)
        action = policy.sample((16,))
        reward = pays[action]
        loss = -(policy.log_prob(action) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return dist.Categorical(logits=scores).probs.tolist()


def fit_mixture() -> list[float]:
    """The means of two normal distributions whose mixture has made the data."""
    data = sf.cat([dist.Normal(-2.0, 0.5).sample((200,)), dist.Normal(3.0, 0.5).sample((200,))])
    means = sf.tensor([-0.5, 0.5], requires_grad=True)
    optimizer = sf.optim.Adam([means], lr=0.1)
    for _ in range(100):
        humps = dist.MixtureSameFamily(dist.Categorical(probs=sf.ones(2)), dist.Normal(means, 1.0))
        loss = -humps.log_prob(data).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    fitted: list[float] = sorted(means.tolist())
    return fitted


def main() -> None:
    sf.manual_seed(0)
    first, last = train_autoencoder()
    print(f"autoencoder, compiled: the bound fell from {first:.2f} to {last:.2f}")
    chances = train_policy()
    print(f"policy: the best lever is pulled {chances[2]:.0%} of the time")
    low, high = fit_mixture()
    print(f"mixture: humps near {low:.1f} and {high:.1f}")


if __name__ == "__main__":
    main()
