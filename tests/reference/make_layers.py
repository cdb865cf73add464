"""Writes layers.json: outputs and gradients of PyTorch's layers, for test_nn_layers.py. Run it where
PyTorch is. Weights and inputs are made of formulas, so that the test can make them again; of the
gradient of each parameter its product with such a formula is kept."""

import json
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

ENCODER = {"dropout": 0.0, "dim_feedforward": 6}
CASES = [
    ["RNN", [3, 4], {}, [[5, 2, 3]], {}],
    ["RNN", [3, 4, 2], {"nonlinearity": "relu", "bias": False}, [[5, 2, 3], [2, 2, 4]], {}],
    ["RNN", [3, 4], {"bidirectional": True}, [[5, 3]], {}],
    ["LSTM", [3, 4], {}, [[5, 2, 3]], {}],
    ["LSTM", [3, 4, 2], {"bidirectional": True, "batch_first": True}, [[2, 5, 3]], {}],
    ["LSTM", [3, 4, 2], {"bias": False}, [[5, 3]], {}],
    ["GRU", [3, 4], {}, [[5, 2, 3], [1, 2, 4]], {}],
    ["GRU", [3, 4, 2], {"bidirectional": True}, [[5, 2, 3]], {}],
    ["GRU", [3, 4], {"bias": False, "batch_first": True}, [[2, 5, 3]], {}],
    ["RNNCell", [3, 4], {}, [[2, 3]], {}],
    ["RNNCell", [3, 4], {"nonlinearity": "relu", "bias": False}, [[3], [4]], {}],
    ["LSTMCell", [3, 4], {}, [[2, 3]], {}],
    ["GRUCell", [3, 4], {}, [[2, 3], [2, 4]], {}],
    ["GRUCell", [3, 4], {"bias": False}, [[3]], {}],
    ["MultiheadAttention", [4, 2], {}, [[5, 2, 4], [3, 2, 4], [3, 2, 4]], {}],
    ["MultiheadAttention", [4, 2], {"bias": False, "batch_first": True}, [[2, 5, 4], [2, 3, 4], [2, 3, 4]],
     {"key_padding_mask": "padding", "average_attn_weights": False}],
    ["MultiheadAttention", [4, 2], {"kdim": 3, "vdim": 2}, [[5, 2, 4], [3, 2, 3], [3, 2, 2]],
     {"attn_mask": "mask", "key_padding_mask": "padding"}],
    ["MultiheadAttention", [4, 2], {}, [[5, 4], [3, 4], [3, 4]],
     {"attn_mask": "added", "need_weights": False}],
    ["TransformerEncoderLayer", [4, 2], ENCODER, [[5, 2, 4]], {}],
    ["TransformerEncoderLayer", [4, 2],
     ENCODER | {"norm_first": True, "activation": "gelu", "batch_first": True, "bias": False},
     [[2, 5, 4]], {"src_mask": "square"}],
    ["TransformerDecoderLayer", [4, 2], ENCODER, [[5, 2, 4], [3, 2, 4]], {}],
    ["TransformerDecoderLayer", [4, 2], ENCODER | {"norm_first": True}, [[5, 2, 4], [3, 2, 4]],
     {"tgt_mask": "square", "memory_key_padding_mask": "padding"}],
    ["Bilinear", [3, 2, 4], {}, [[5, 3], [5, 2]], {}],
    ["Bilinear", [3, 2, 4], {"bias": False}, [[2, 5, 3], [2, 5, 2]], {}],
    ["CosineSimilarity", [], {"dim": 1, "eps": 0.5}, [[3, 4], [3, 4]], {}],
    ["PairwiseDistance", [], {"p": 3.0, "keepdim": True}, [[3, 4], [3, 4]], {}],
]  # fmt: skip
MASKS = {
    "padding": np.array([[False, False, True], [False, False, False]]),
    "mask": np.arange(15).reshape(5, 3) % 4 == 3,
    "added": np.sin(np.arange(15.0)).reshape(5, 3),
    "square": ~np.tri(5, dtype=bool),
}


def wave(*shape: int, by: float = 1.0) -> np.ndarray:
    """Numbers between -1 and 1 without a pattern."""
    return np.sin(by * (np.arange(np.prod(shape, dtype=int)) + 1.5) ** 2).reshape(shape)


def run(kind: str, args: list, options: dict, shapes: list, call: dict) -> list:
    """The outputs, the gradients of the inputs, and a number for that of each parameter."""
    layer = getattr(nn, kind)(*args, **options).double()
    for i, p in enumerate(layer.parameters()):
        p.data.copy_(torch.tensor(wave(*p.shape, by=1 + 0.1 * i)))
    inputs = [
        torch.tensor(wave(*s, by=0.9 - 0.1 * i)).requires_grad_() for i, s in enumerate(shapes)
    ]
    masks = {n: torch.tensor(MASKS[v]) if v in MASKS else v for n, v in call.items()}
    out = layer(*inputs, **masks)
    flat = []
    for o in out if isinstance(out, tuple) else (out,):
        flat += o if isinstance(o, tuple) else () if o is None else (o,)
    loss = sum((o * torch.tensor(wave(*o.shape, by=1.7))).sum() for o in flat)
    loss.backward()
    slopes = [
        (p.grad * torch.tensor(wave(*p.shape, by=0.3))).sum().item() for p in layer.parameters()
    ]
    return [
        [o.flatten().tolist() for o in flat],
        [i.grad.flatten().tolist() for i in inputs],
        dict(zip([n for n, _ in layer.named_parameters()], slopes, strict=True)),
    ]


def main() -> None:
    """Write the file."""
    warnings.simplefilter("ignore")
    lines = [json.dumps([*case, *run(*case)]) for case in CASES]
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    Path(__file__).with_name("layers.json").write_text(text)


if __name__ == "__main__":
    main()
