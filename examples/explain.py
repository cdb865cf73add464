"""What the compiler does with an expression, where a person can see it.

One screen says what a program is and what it costs. Every pass says what each of its rules did; the
graph before and after, the kernels and the plan of the memory can all be printed.
"""

import staticflow as sf


def main() -> None:
    sf.manual_seed(0)
    x = sf.placeholder((None, 64), name="x")
    w = sf.randn(64, 10)
    chances = (x @ w * 1).softmax(dim=1)
    loss = -chances.log().mean()
    program = sf.compile([x], [loss, sf.grad(loss, w)])

    print(program.explain(x_0=128), "\n")
    print(f"As written:\n{program.graph}\n")
    print(program.explain("passes"), "\n")
    print(f"As it runs:\n{program.optimized}\n")

    kernels = program.source("kernels")
    print("\n".join(kernels.splitlines()[:12]), "\n  ...\n")
    print(f"LLVM: {len(program.source('llvm').splitlines())} lines,", end=" ")
    print(f"machine code: {len(program.source('asm').splitlines())} lines\n")
    print(program.plan, "\n")

    v = sf.randn(10, 1)
    products = sf.compile([x], x @ w @ v)
    print(f"x w v as x (w v): {[dict(p.counts) for p in products.passes if 'order' in p.name]}")

    scores = 100 * sf.randn(5, 64)
    eager = -(scores @ w).softmax(dim=1).log().mean()  # some chances round to 0
    print(f"eagerly the loss is {eager.item()}, compiled {program(scores)[0].item():.1f}")


if __name__ == "__main__":
    main()
