"""Losses: classes, numbers, probabilities; weights and what is left out; what is refused.

A loss is a module or a function of the same name in lower case, in both modes.
"""

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F


def main() -> None:
    scores = sf.tensor([[2.0, 0.5, -1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 3.0]])
    classes = sf.tensor([0, 1, 1])
    print(f"each row: {F.cross_entropy(scores, classes, reduction='none').tolist()}")
    logs = nn.LogSoftmax(dim=1)(scores)
    same = sf.allclose(nn.CrossEntropyLoss()(scores, classes), nn.NLLLoss()(logs, classes))
    print(f"cross entropy is the negative log-likelihood of log_softmax: {same}")
    rare = nn.CrossEntropyLoss(weight=sf.tensor([1.0, 4.0, 1.0]))
    print(f"class 1 counts four times: {rare(scores, classes):.4f}")
    without = F.cross_entropy(scores, sf.tensor([0, 1, -100]))
    print(f"without the last row: {without:.4f}, {F.cross_entropy(scores[:2], classes[:2]):.4f}")

    x, t = sf.tensor([0.5, -2.0, 4.0]), sf.zeros(3)
    for loss in (nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss(), nn.HuberLoss(delta=2.0)):
        print(f"{type(loss).__name__}: {loss(x, t):.4f}")
    yes = sf.tensor([1.0, 0.0, 1.0])
    stable, plain = nn.BCEWithLogitsLoss()(x, yes), nn.BCELoss()(x.sigmoid(), yes)
    print(f"of scores {stable:.4f}, of probabilities {plain:.4f}")
    print(
        f"and of a score of -200: {F.binary_cross_entropy_with_logits(sf.tensor(-200.0), yes[0])}"
    )
    print(f"from a distribution to itself: {F.kl_div(logs, logs.exp(), reduction='batchmean'):.4f}")

    rows = sf.placeholder((None, 3), name="rows")
    of = sf.placeholder((None,), "int64", name="of")
    program = sf.compile([rows, of], [rare(rows, of), sf.grad(rare(rows, of), rows)])
    value, gradient = program(scores, classes)
    scores.requires_grad_()
    rare(scores, classes).backward()
    print(f"compiled: {value:.4f}, the same gradient: {sf.allclose(gradient, scores.grad)}")
    for call in (
        lambda: F.cross_entropy(scores, sf.tensor([0, 3, 1])),
        lambda: program(scores.detach(), classes + 2),
    ):
        try:
            call()
        except IndexError as error:
            print(f"refused: {str(error).split(';')[0]}")


if __name__ == "__main__":
    main()
