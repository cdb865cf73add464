"""Optimisers: rules, groups, schedules and clipping, in either mode.

An optimiser is a rule written in operations. ``step`` applies it to the gradients that ``backward``
left; ``minimize`` gives it as updates of a compiled step. State and learning rate are tensors, so a
schedule recompiles nothing.
"""

import staticflow as sf
from staticflow import nn, optim

RULES = {
    "SGD": lambda p: optim.SGD(p, lr=2e-2, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "Adam": lambda p: optim.Adam(p, lr=1e-2),
    "AdamW": lambda p: optim.AdamW(p, lr=1e-2, weight_decay=1e-2),
    "RMSprop": lambda p: optim.RMSprop(p, lr=3e-3),
    "Adagrad": lambda p: optim.Adagrad(p, lr=5e-2),
    "Adadelta": lambda p: optim.Adadelta(p, lr=1.0),
}


def train(rule, steps):
    """One network trained by one rule, half of it compiled; returns the losses."""
    sf.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    groups = [
        {"params": model[0].parameters()},
        {"params": model[2].parameters(), "weight_decay": 0.0},  # a group with its own number
    ]
    optimiser = rule(groups)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    x, y = sf.placeholder((None, 4), name="x"), sf.placeholder((None, 1), name="y")
    loss = nn.functional.mse_loss(model(x), y)
    clipped, _ = nn.utils.clip_grad_norm(optimiser.gradients(loss), 1.0)
    static_step = sf.compile([x, y], loss, updates=optimiser.updates(clipped))

    def eager_step(x, y):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return loss

    data = sf.rand(256, 4) * 2 - 1
    wanted = (data[:, :1] * data[:, 1:2] + data[:, 2:3].sin()) * 2
    losses = []
    for step in range(steps):
        run = static_step if step < steps // 2 else eager_step
        losses.append(run(data, wanted).item())
        schedule.step()
    return losses


def main() -> None:
    for name, rule in RULES.items():
        losses = train(rule, 300)
        print(f"{name}: loss {losses[0]:.3f} -> {losses[-1]:.5f}")
        assert losses[-1] < losses[0] / 50


if __name__ == "__main__":
    main()
