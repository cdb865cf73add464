"""A differential equation solved with a step size of its own, and fitted to data by gradients.

A swinging pendulum with unknown friction and gravity is solved by Heun's method, whose steps grow
and shrink with the error that each one makes. How many there are depends on the parameters, which
change as they are learned; the gradient goes back through the very steps that were made.
"""

import staticflow as sf

TOLERANCE, END = 1e-5, 4.0


def slope(state, theta):
    """The change of (angle, speed)."""
    friction, gravity = theta[0], theta[1]
    return sf.stack([state[1], -friction * state[1] - gravity * sf.sin(state[0])])


def solve(theta, start, end):
    """The state at ``end``, and the number of steps that were tried."""

    def going(t, state, dt, tries):
        return t < end

    def attempt(t, state, dt, tries):
        dt = sf.minimum(dt, end - t)
        k1 = slope(state, theta)
        k2 = slope(state + dt * k1, theta)
        error = (k2 - k1).abs().max().detach() * dt / 2
        good = error <= TOLERANCE
        t = sf.where(good, t + dt, t)
        state = sf.where(good, state + dt * (k1 + k2) / 2, state)
        wider = (TOLERANCE / (error + 1e-12)).sqrt().clamp(0.2, 2.0)
        return t, state, 0.9 * dt * wider, tries + 1

    zero = start.sum() * 0
    _, state, _, tries = sf.while_loop(going, attempt, (zero, start, zero + 0.01, 0))
    return state, tries


def main(steps: int = 200) -> list[float]:
    """Learn friction and gravity from where the pendulum is at the end; returns the losses."""
    starts = [sf.tensor([angle, 0.0], dtype="float64") for angle in (0.5, 1.0, 2.0)]
    truth = sf.tensor([0.3, 2.0], dtype="float64")
    ends = [solve(truth, start, END)[0] for start in starts]  # define-by-run

    theta = sf.tensor([0.1, 1.5], dtype="float64", requires_grad=True)
    optimiser = sf.optim.Adam([theta], lr=0.02)
    start, seen = (sf.placeholder((2,), "float64", name=name) for name in ("start", "seen"))
    state, tries = solve(theta, start, END)
    loss = (state - seen).pow(2).sum()
    train = sf.compile([start, seen], [loss, tries], updates=optimiser.minimize(loss))

    losses = []
    for step in range(1, steps + 1):
        which = step % len(starts)
        loss, tries = train(starts[which], ends[which])
        losses.append(loss.item())
        if step % 20 == 0:
            print(f"step {step}: loss {losses[-1]:.3g}, {tries.item()} steps of the solver")
    print(f"friction and gravity {[round(v, 3) for v in theta.tolist()]}")
    return losses


if __name__ == "__main__":
    main()
