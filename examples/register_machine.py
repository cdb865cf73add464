"""A machine whose program is data: `switch`, one's own class as a carry, truncated derivatives.

Which function an instruction is, `switch` finds out as the program runs, forward and backward. The
machine is a dataclass, the carry of a scan over the instructions: one compiled program runs all
programs of all lengths, on inputs of all sizes, and finds the constants in them by gradients.
"""

from dataclasses import dataclass

import staticflow as sf

CONSTANT, ADD, MULTIPLY, SIN = range(4)
FUNCTIONS = [
    lambda x, y, constant: constant + 0 * x,
    lambda x, y, constant: x + y,
    lambda x, y, constant: x * y,
    lambda x, y, constant: x.sin(),
]


@sf.register_dataclass
@dataclass
class Machine:
    """Three registers, each of which holds a number for each input, and a count of instructions."""

    registers: sf.Tensor
    ran: sf.Tensor


def run(code, constants, inputs, truncate=None):
    """The last register, with the inputs in the first at the beginning. A row of ``code`` is an
    instruction: which function, of which two registers, and where to."""

    def step(machine, instruction):
        (function, first, second, to), constant = instruction
        x, y = machine.registers[first], machine.registers[second]
        value = sf.switch(function, FUNCTIONS, x, y, constant)
        is_target = (sf.arange(3) == to)[:, None]
        return Machine(sf.where(is_target, value, machine.registers), machine.ran + 1), None

    registers = sf.stack([inputs, sf.zeros_like(inputs), sf.zeros_like(inputs)])
    start = Machine(registers, sf.zeros((), dtype=sf.int64))
    end, _ = sf.scan(step, start, (code, constants), truncate=truncate)
    return end.registers[2], end.ran


WAVE = sf.tensor(
    [
        [CONSTANT, 0, 0, 1],
        [MULTIPLY, 0, 1, 2],
        [CONSTANT, 0, 0, 1],
        [ADD, 2, 1, 2],
        [SIN, 2, 0, 2],
    ]
)
"""``sin(a x + b)``, where the constants a and b are those of instructions 0 and 2."""


def main() -> None:
    constants = sf.tensor([1.5, 0, 0, 0, 0], requires_grad=True)
    code = sf.placeholder(("instructions", 4), "int64", name="code")
    x, y = (sf.placeholder(("points",), name=name) for name in "xy")
    result, ran = run(code, sf.symbol(constants), x)
    loss = (result - y).square().mean()
    rule = sf.optim.SGD([constants], lr=0.5)
    step = sf.compile([code, x, y], [loss, ran], updates=rule.minimize(loss))
    points = sf.linspace(-1, 1, 50)
    for i in range(301):
        error, count = step(WAVE, points, (2 * points + 0.5).sin())
        if i % 100 == 0:
            print(f"step {i}: loss {error.item():.6f} after {count.item()} instructions")
    a, b = constants.detach()[[0, 2]].tolist()
    print(f"sin({a:.3f} x + {b:.3f})")

    square = sf.compile([code, x], run(code, sf.zeros_like(code[:, 0], dtype=sf.float32), x)[0])
    points = sf.tensor([1.0, 2.0, 3.0])
    print(f"another program: {square(sf.tensor([[MULTIPLY, 0, 0, 2]]), points).tolist()}")

    for last in (None, 3):  # define-by-run; b is the constant of the last three
        constants.grad = None
        run(WAVE, constants, points, truncate=last)[0].sum().backward()
        found = [round(g, 3) for g in constants.grad[[0, 2]].tolist()]
        print(f"derivatives by a and b through {last or 'all'} of the instructions: {found}")


if __name__ == "__main__":
    main()
