"""Mixed precision in both modes: products in 16 bits, losses and parameters in float32."""

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F


def forward(model, x, y):
    with sf.autocast("cpu", dtype=sf.float16):
        scores = model(x)  # float16, as float32 parameters are cast
        return scores, F.cross_entropy(scores, y)  # float32


def begin():
    sf.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    opt = sf.optim.Adam(model.parameters(), lr=0.01)
    return model, opt, sf.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=50)


def main() -> None:
    sf.manual_seed(1)
    x, y = sf.randn(32, 8), sf.arange(32) % 3

    model, opt, scaler = begin()
    for _ in range(100):
        opt.zero_grad()
        scores, loss = forward(model, x, y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    grad = model[0].weight.grad
    print(f"scores {scores.dtype!r}, loss {loss.dtype!r}, gradient {grad.dtype!r}")
    print(f"eager: loss {loss.item():.3f}, scale {scaler.get_scale():.0f}")

    model, opt, scaler = begin()
    xs, ys = sf.placeholder((None, 8), name="x"), sf.placeholder((None,), "int64", name="y")
    _, loss = forward(model, xs, ys)
    step = sf.compile([xs, ys], loss, updates=scaler.minimize(opt, loss))
    for _ in range(100):
        loss = step(x, y)
    print(f"compiled: loss {loss.item():.3f}, scale {scaler.get_scale():.0f}")

    before, scale = model[0].weight.clone(), scaler.get_scale()
    step(x * 1e6, y)  # too large for float16
    assert sf.equal(before, model[0].weight)
    print(f"a step that overflows is left out; the scale goes from {scale:.0f} to "
          f"{scaler.get_scale():.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
