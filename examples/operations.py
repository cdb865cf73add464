"""Operations on tensors: made, indexed, joined, reduced and multiplied, in both modes.

Every operation is declared once. The function below is called on tensors, and compiled for any
number of points, and gives the same numbers; its gradient, too.
"""

import staticflow as sf


def nearest(points, centres):
    """The number of the nearest centre of each point, the means of the points of each centre, and
    how far the points lie from it."""
    squared = (points.unsqueeze(1) - centres).pow(2).sum(-1)
    distance, label = squared.min(1)
    sums = sf.zeros_like(centres).index_add(0, label, points)
    counts = sf.zeros_like(centres[:, 0]).index_add(0, label, sf.ones_like(distance))
    means = sums / counts.clamp(min=1).unsqueeze(1)
    return label, means, distance.sqrt()


def main() -> None:
    generator = sf.Generator().manual_seed(0)
    corners = sf.cartesian_prod(sf.tensor([0.0, 4.0]), sf.tensor([0.0, 4.0]))
    noise = sf.randn(4, 25, 2, generator=generator)
    points = (corners.unsqueeze(1) + noise * 0.3).flatten(0, 1)
    centres = corners + 0.5
    print(f"points {points.shape}, the first one {points[0].tolist()}")

    label, means, distance = nearest(points, centres)
    print(f"points of each centre: {sf.bincount(label).tolist()}")
    print(f"nearest to the corners: {sf.allclose(means, corners, atol=0.2)}")
    worst, at = distance.topk(3)
    print(f"the farthest three: {worst.tolist()} of the centres {label[at].tolist()}")
    print(f"of those of centre 0 the mean is {distance[label == 0].mean():.3f}")

    x, c = sf.placeholder((None, 2), name="x"), sf.placeholder((4, 2), name="c")
    program = sf.compile([x, c], [*nearest(x, c), sf.grad(nearest(x, c)[2].sum(), c)])
    compiled = program(points, centres)
    wanted = (label, means, distance)
    same = all(sf.allclose(a, b, atol=1e-5) for a, b in zip(compiled, wanted, strict=False))
    print(f"compiled, the same: {same}")
    centres.requires_grad_()
    nearest(points, centres)[2].sum().backward()
    print(f"and the same gradient: {sf.allclose(compiled[3], centres.grad, atol=1e-4)}")
    few = program(points[:7], centres.detach())[0]
    print(f"of 7 points: {few.tolist()}, compiled {program.compile_count} time")

    rows, columns = sf.meshgrid(sf.arange(3), sf.arange(3), indexing="ij")
    table = sf.where(rows >= columns, rows * 10 + columns, -1)
    print(f"a table {table.tolist()}, its diagonal {table.diagonal().tolist()}")
    print(f"einsum: {sf.einsum('ij,kj->ik', corners, corners).tolist()[3]}")


if __name__ == "__main__":
    main()
