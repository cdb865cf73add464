"""A hidden Markov model: the forward pass is a scan, and its gradient answers the questions.

The log-probability of a sequence sums over all paths of hidden states (Baum et al. 1970). Its
derivative by the log-emissions is the probability of each state at each time, which elsewhere takes
an algorithm of its own; and following it upwards is learning.
"""

import staticflow as sf

STATES, SYMBOLS = 2, 6


def log_probability(start, move, emission):
    """Of ``emission`` (T, STATES): the log-probability of what was seen in each state."""

    def step(alpha, row):
        return (alpha.unsqueeze(1) + move).logsumexp(dim=0) + row, None

    last, _ = sf.scan(step, start + emission[0], emission[1:])
    return last.logsumexp(dim=0)


def main() -> None:
    # a casino that now and then plays with a loaded die (Durbin et al. 1998)
    start = sf.tensor([0.5, 0.5]).log()
    move = sf.tensor([[0.95, 0.05], [0.1, 0.9]]).log()
    dice = sf.stack([sf.full((SYMBOLS,), 1 / 6), sf.tensor([0.1] * 5 + [0.5])]).log()
    rolls = sf.tensor([1, 3, 0, 2, 4, 1, 5, 5, 3, 5, 5, 5, 0, 5, 5, 2, 1, 3, 0, 4])

    emission = dice.t()[rolls].requires_grad_()
    log_probability(start, move, emission).backward()  # define-by-run
    loaded = "".join("*" if p > 0.5 else "." for p in emission.grad[:, 1].tolist())
    print(f"rolls  {''.join(str(r + 1) for r in rolls.tolist())}\nloaded {loaded}")

    seen = sf.placeholder(("T",), "int64", name="seen")  # define-then-run, for any length
    rows = dice.t()[seen]
    total = log_probability(start, move, rows)
    program = sf.compile([seen], [total, sf.grad(total, rows)])
    total, states = program(rolls)
    print(f"compiled: {total.item():.4f}, the same states: {sf.allclose(states, emission.grad)}")
    for length in (1, 2, 7):
        print(f"{length} rolls: {program(rolls[:length])[0].item():.4f}")
    print(f"compiled {program.compile_count} time")


if __name__ == "__main__":
    main()
