"""Memory of long loops: what the backward pass keeps, and what it computes again.

A loop that is differentiated keeps the state of every step. With ``checkpoint`` it keeps some of
them and computes the others again; with ``memory_budget`` the program takes no more than that, or
says what it takes. The numbers stay the same, and the plan says before the run how much memory
there will be.
"""

import staticflow as sf

WIDTH, STEPS = 32, 2_000


def final_energy(state, w, **keep):
    """The energy of a recurrent state after many steps."""
    last, _ = sf.scan(lambda h, _: ((h @ w).tanh(), None), state, length=STEPS, **keep)
    return (last * last).sum()


def main() -> None:
    sf.manual_seed(0)
    w = sf.eye(WIDTH) + sf.randn(WIDTH, WIDTH) / 20
    start = sf.randn(1, WIDTH)
    state = sf.placeholder((None, WIDTH), name="state")
    ways = {
        "keep all": {},
        "sqrt": {"checkpoint": "sqrt"},
        "every 100th": {"checkpoint": 100},
        "within 128 KiB": {"memory_budget": 2**17},
    }
    first = None
    for name, keep in ways.items():
        loss = final_energy(state, w, **keep)
        program = sf.compile([state], sf.grad(loss, w))
        planned = program.plan.peak_bytes(state_0=1)
        gradient = program(start)
        first = gradient if first is None else first
        error = ((gradient - first).norm() / first.norm()).item()
        print(f"{name}: {planned / 2**10:.0f} KiB planned, gradient off by {error:.0e}")
    print("\nWhat the last plan holds, and when:")
    held = [line for line in str(program.plan).splitlines() if "live in steps" in line]
    print(*held[:5], "  ...", sep="\n")


if __name__ == "__main__":
    main()
