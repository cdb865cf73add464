"""Writes losses.json: PyTorch's losses and their gradients, for test_nn_losses.py. Run it where
PyTorch is. The inputs are those of loss_cases.py."""

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "nn"))

from loss_cases import inputs

REDUCTIONS = ("mean", "sum", "none")
WEIGHT = [0.5, 1.0, 2.0, 0.25]
CASES = [
    ["mse_loss", "real", {}],
    ["l1_loss", "real", {}],
    ["smooth_l1_loss", "real", {"beta": 0.7}],
    ["smooth_l1_loss", "real", {"beta": 0.0}],
    ["huber_loss", "real", {"delta": 0.7}],
    ["nll_loss", "classes", {}],
    ["nll_loss", "classes_in_range", {"weight": WEIGHT, "ignore_index": 1}],
    ["nll_loss", "classes_of_pixels", {"weight": WEIGHT}],
    ["nll_loss", "one_class", {}],
    ["cross_entropy", "classes", {}],
    ["cross_entropy", "classes", {"weight": WEIGHT, "label_smoothing": 0.2}],
    ["cross_entropy", "classes_in_range", {"label_smoothing": 0.2, "ignore_index": 2}],
    ["cross_entropy", "classes_of_pixels", {"weight": WEIGHT, "label_smoothing": 0.1}],
    ["cross_entropy", "one_class", {"label_smoothing": 0.1}],
    ["cross_entropy", "class_probabilities", {}],
    ["cross_entropy", "class_probabilities", {"weight": WEIGHT, "label_smoothing": 0.3}],
    ["binary_cross_entropy", "probabilities", {}],
    ["binary_cross_entropy", "probabilities", {"weight": WEIGHT}],
    ["binary_cross_entropy_with_logits", "scores", {}],
    ["binary_cross_entropy_with_logits", "scores", {"weight": WEIGHT, "pos_weight": WEIGHT[::-1]}],
    ["kl_div", "log_probabilities", {}],
    ["kl_div", "two_log_probabilities", {"log_target": True}],
    ["poisson_nll_loss", "counts", {"full": True}],
    ["poisson_nll_loss", "rates", {"log_input": False, "full": True}],
    ["gaussian_nll_loss", "gaussian", {"full": True}],
    ["margin_ranking_loss", "order", {"margin": 0.5}],
    ["hinge_embedding_loss", "signs", {"margin": 0.5}],
    ["soft_margin_loss", "signs", {}],
    ["multilabel_soft_margin_loss", "labels", {"weight": WEIGHT}],
    ["multi_margin_loss", "classes_in_range", {"margin": 0.7}],
    ["multi_margin_loss", "classes_in_range", {"p": 2, "weight": WEIGHT}],
    ["cosine_embedding_loss", "vectors", {"margin": 0.1}],
    ["triplet_margin_loss", "triplets", {}],
    ["triplet_margin_loss", "triplets", {"p": 3.0, "swap": True, "margin": 0.3}],
]


def main() -> None:
    """Write the file."""
    lines = []
    for name, kind, options in CASES:
        made = {
            n: torch.tensor(v).double() if isinstance(v, list) else v for n, v in options.items()
        }
        values, gradients = [], []
        for reduction in REDUCTIONS:
            first, *rest = (torch.tensor(a) for a in inputs(kind))
            first.requires_grad_()
            loss = getattr(F, name)(first, *rest, reduction=reduction, **made)
            if reduction == "mean":
                loss.backward()
                gradients = first.grad.flatten().tolist()
            values.append(loss.flatten().tolist())
        lines.append(json.dumps([name, kind, options, values, gradients]))
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    Path(__file__).with_name("losses.json").write_text(text)


if __name__ == "__main__":
    main()
