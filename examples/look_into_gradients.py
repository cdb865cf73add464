"""Looking into a backward pass: hooks, kept gradients, the line of a NaN, finite differences."""

import staticflow as sf
from staticflow import nn
from staticflow.autograd import gradcheck, gradgradcheck


def main() -> None:
    sf.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    seen = []
    for name, layer in model.named_children():  # hooks of modules see every call and every gradient
        layer.register_forward_hook(lambda m, args, out, name=name: seen.append((name, out.shape)))
        layer.register_full_backward_hook(lambda m, gi, go, name=name: seen.append((name, "back")))

    x = sf.randn(2, 3, requires_grad=True)
    hidden = model[1](model[0](x))
    hidden.retain_grad()  # of a value on the way; leaves have theirs anyway
    hidden.register_hook(lambda g: g.clamp(-0.1, 0.1))  # what it returns goes on
    model[2](hidden).sum().backward()
    print(seen)
    print(f"clipped on the way: {hidden.grad.abs().max().item():.1f}, x has {x.grad.shape}")

    first = model[0].weight  # a hook of a leaf may use its gradient up, as memory is tight
    first.register_post_accumulate_grad_hook(lambda p: p.data.sub_(p.grad, alpha=0.1))
    model(x.detach()).sum().backward()

    def f(w):
        return (w.sigmoid() * w).sum()

    w = sf.randn(5, dtype="float64", requires_grad=True)
    print(f"right to first and second order: {gradcheck(f, w)}, {gradgradcheck(f, w)}")

    (slope,) = sf.autograd.grad(f(w), w, create_graph=True)  # the gradient, itself recorded
    print(f"its grad_fn is {slope.grad_fn}, .grad stays {w.grad}")

    with sf.autograd.detect_anomaly():
        zero = sf.zeros(1, requires_grad=True)
        try:
            (zero.sqrt() * 0).sum().backward()  # 0 * infinity
        except sf.StaticflowError as error:
            print(f"found: {error}")

    v = sf.placeholder((None,), "float64", name="v")
    program = sf.compile([v], sf.log(v).sum())
    try:
        program.check_nan(sf.tensor([1.0, -2.0], dtype="float64"))  # the same for a program
    except sf.NanError as error:
        print(f"found: {error}")


if __name__ == "__main__":
    main()
