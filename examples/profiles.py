"""Where the time and the memory of a training step go, in both modes.

`step.profile(...)` reads a clock around each kernel of a compiled step and trains nothing; `with
sf.profile()` writes down every operation of eager code. Both give a table, and one trace for a
viewer, Perfetto for one, on one axis of time.
"""

import os
import tempfile

import staticflow as sf


def main() -> None:
    sf.manual_seed(0)
    model = sf.nn.Sequential(
        sf.nn.Conv2d(1, 6, 5),
        sf.nn.ReLU(),
        sf.nn.MaxPool2d(2),
        sf.nn.Flatten(),
        sf.nn.Linear(864, 10),
    )
    optimizer = sf.optim.Adam(model.parameters(), lr=1e-3)
    images, labels = sf.randn(32, 1, 28, 28), sf.arange(32) % 10

    def learn() -> None:
        optimizer.zero_grad()
        loss = sf.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    learn()  # what is made once is no part of the profile
    with sf.profile() as eager:
        for _ in range(10):
            learn()
    print(f"define-by-run\n{eager}\n")

    x = sf.placeholder((None, 1, 28, 28), name="x")
    y = sf.placeholder((None,), "int64", name="y")
    loss = sf.nn.functional.cross_entropy(model(x), y)
    step = sf.compile([x, y], loss, updates=optimizer.minimize(loss))
    before = [p.detach().clone() for p in model.parameters()]
    static = step.profile(images, labels)
    print(f"define-then-run\n{static}\n")

    unchanged = all((a == b).all() for a, b in zip(before, model.parameters(), strict=True))
    print(f"the profile trained nothing: {unchanged}")

    with sf.profile() as both:  # which trains, as such a block does
        learn()
        step(images, labels)
    inside = [row for row in both.result.rows if row.program]
    print(f"in a block, the kernels of a step are there, too: {len(inside) >= step.kernel_count}")
    kernels = [row for row in static.rows if row.kind == "kernel"]
    print(f"every kernel has a row: {len(kernels) == step.kernel_count}")
    parts = sum(row.seconds for row in static.rows) + sum(static.outside.values())
    print(f"the parts are the whole: {abs(parts - static.seconds) < 1e-9}")

    path = os.path.join(tempfile.mkdtemp(), "trace.json")
    eager.export(path, static)
    print(
        f"both modes in one trace: {os.path.getsize(path) // 1024} KiB; open it in ui.perfetto.dev"
    )


if __name__ == "__main__":
    main()
