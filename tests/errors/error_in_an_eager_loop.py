# raises ShapeError
# says matmul
# says in iteration 2 of the scan at
# says in iteration 1 of the while_loop at
import staticflow as sf


def grow(n, x):
    def step(carry, i):
        if n == 1 and i == 2:
            return carry @ sf.ones(3, 3), None  # <-- error
        return carry, None

    return n + 1, sf.scan(step, x, sf.arange(4))[0]  # <-- also


sf.while_loop(lambda n, x: n < 3, grow, (0, sf.ones(2, 2)))  # <-- also
