"""Dtypes: how operands meet, what 16 bits hold, and what integers do, alike in both modes."""

import staticflow as sf


def results(x):
    return [x / 2, x // 2, x.sum(), (x > 1).sum()]


def main() -> None:
    for a, b in (("uint8", "int8"), ("int64", "float16"), ("float16", "bfloat16")):
        print(f"{a} with {b}: {(sf.ones(1, dtype=a) + sf.ones(1, dtype=b)).dtype!r}")
    half = sf.ones(1, dtype="float16")
    print(f"a Python number changes no dtype: {(half * 2.5).dtype!r}")

    many = sf.full((10_000,), 0.1, dtype="bfloat16")  # sums are kept in 32 bits, rounded once
    print(f"10000 times 0.1 in bfloat16: {many.sum().item()}")
    print(f"integers wrap: {(sf.tensor([250], dtype='uint8') + 10).tolist()}")
    print(f"and round as they are told: {sf.div(sf.tensor([-7]), 2, rounding_mode='trunc').item()}")

    x = sf.placeholder((None,), "int32", name="x")
    program = sf.compile([x], results(x))
    data = sf.tensor([1, -3, 4], dtype="int32")
    for eager, static in zip(results(data), program(data), strict=True):
        assert eager.dtype is static.dtype and sf.equal(eager, static)
        print(f"the same in both modes: {static}")

    try:
        program(sf.tensor([1.0]))
    except sf.DTypeError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
