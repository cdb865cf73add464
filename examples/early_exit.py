"""Loops that end when the data says so, and loops that look back.

``until`` ends a scan early; its outputs are those of the steps that were made, and how many they
are shows only as the program runs. ``taps`` hands a step earlier rows of its input and of its own
output. Both have gradients, and one compiled program serves every length.
"""

import staticflow as sf


def grow(start, rates, limit):
    """Capital year by year, until it passes the limit."""

    def year(capital, rate):
        capital = capital * (1 + rate)
        return capital, capital

    return sf.scan(year, start, rates, until=lambda capital, _: capital >= limit)


def resonator(signal, a, b):
    """``y[t] = x[t] + a y[t-1] + b y[t-2]``, from silence."""

    def step(carry, x, past):
        return carry, x[0] + a * past[0] + b * past[1]

    _, ys = sf.scan(step, (), signal, taps={"xs": (0,), "ys": (1, 2)}, ys_init=sf.zeros(2))
    return ys


def main() -> None:
    start, rates, limit = (
        sf.placeholder(shape, name=name)
        for shape, name in (((), "start"), (("years",), "rates"), ((), "limit"))
    )
    last, path = grow(start, rates, limit)
    slope = sf.grad(last, start)
    program = sf.compile([start, rates, limit], [path, slope])
    for goal in (1.2, 1.5, 1e6):
        path, slope = program(1.0, sf.full((30,), 0.07), goal)
        print(
            f"goal {goal:g}: {len(path)} years to {path[-1].item():.3f}, slope {slope.item():.3f}"
        )

    capital = sf.tensor(1.0, requires_grad=True)  # the same function, define-by-run
    last, path = grow(capital, sf.full((30,), 0.07), 1.5)
    last.backward()
    print(f"define-by-run: {len(path)} years, slope {capital.grad.item():.3f}")

    signal, a, b = sf.placeholder((None,), name="x"), *(sf.placeholder((), name=n) for n in "ab")
    ring = sf.compile([signal, a, b], resonator(signal, a, b))
    impulse = sf.tensor([1.0, *[0.0] * 7])
    print(f"an impulse rings: {[round(v, 3) for v in ring(impulse, 1.2, -0.72).tolist()]}")
    print(f"and once again, as long as it is asked to: {ring(sf.ones(3), 0.5, 0.0).tolist()}")
    print(f"compiled {program.compile_count} time and {ring.compile_count} time")


if __name__ == "__main__":
    main()
