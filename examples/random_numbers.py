"""Random numbers: one stream of a seed, whichever mode draws.

The k-th draw of a generator is a function of its seed and of k alone. So dropout drops the same
elements in either mode, and a stream can go back to a state that was kept.
"""

import staticflow as sf
from staticflow import nn


def main() -> None:
    sf.manual_seed(0)
    generator = sf.Generator().manual_seed(42)
    first, second = sf.randn(3, generator=generator), sf.randn(3, generator=generator)
    print(f"two draws: {first.tolist()}, {second.tolist()}")

    generator.manual_seed(42)
    shape = sf.placeholder((None,), name="shape")
    draw = sf.compile([shape], sf.randn_like(shape, generator=generator))  # a new draw every call
    print(f"the same, compiled: {[draw(sf.zeros(3)).tolist() for _ in range(2)]}")
    print(f"and on from there, define-by-run: {sf.randn(2, generator=generator).tolist()}")

    model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5))
    x = sf.placeholder((None, 4), name="x")
    program = sf.compile([x], model(x))
    data = sf.randn(2, 4)
    state = sf.get_rng_state()
    static = program(data)
    sf.set_rng_state(state)
    eager = model(data)
    print(f"the same elements dropped: {sf.equal(static == 0, eager == 0)}")
    print(f"and the same numbers kept: {sf.allclose(static, eager)}")

    probabilities = sf.tensor([0.1, 0.0, 0.9])
    print(f"no draw of what is impossible: {sf.multinomial(probabilities, 8, True).tolist()}")
    print(f"a shuffle: {sorted(sf.randperm(6).tolist())} in some order")


if __name__ == "__main__":
    main()
