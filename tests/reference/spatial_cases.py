"""The layers of one input that ``make_spatial.py`` runs in PyTorch and ``test_nn_spatial.py`` here: by
name, the class, its arguments, and the shape of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]

CASES: dict[str, Case] = {
    "conv1d": ("Conv1d", (3, 4, 3), {}, (2, 3, 7)),
    "conv1d alone": ("Conv1d", (3, 4, 3), {"stride": 2}, (3, 8)),
    "conv2d": ("Conv2d", (2, 3, 3), {}, (2, 2, 6, 5)),
    "conv2d stride padding": ("Conv2d", (2, 3, 3), {"stride": 2, "padding": 1}, (2, 2, 7, 6)),
    "conv2d pairs": (
        "Conv2d", (2, 3, (3, 2)), {"stride": (1, 2), "padding": (2, 1), "dilation": (2, 1)},
        (2, 2, 6, 6),
    ),
    "conv2d groups": ("Conv2d", (4, 6, 3), {"groups": 2, "padding": 1, "bias": False}, (1, 4, 5, 5)),
    "conv2d depthwise": ("Conv2d", (3, 6, 3), {"groups": 3}, (2, 3, 5, 5)),
    "conv2d same": ("Conv2d", (2, 2, (3, 4)), {"padding": "same", "dilation": (1, 1)}, (1, 2, 5, 6)),
    "conv2d valid": ("Conv2d", (2, 2, 3), {"padding": "valid"}, (1, 2, 5, 6)),
    "conv2d pointwise": ("Conv2d", (3, 4, 1), {}, (2, 3, 4, 5)),
    "conv2d reflect": ("Conv2d", (2, 2, 3), {"padding": 2, "padding_mode": "reflect"}, (1, 2, 5, 4)),
    "conv2d replicate": (
        "Conv2d", (2, 2, 3), {"padding": (1, 2), "padding_mode": "replicate"}, (1, 2, 4, 5),
    ),
    "conv2d circular": (
        "Conv2d", (2, 2, 3), {"padding": "same", "padding_mode": "circular"}, (1, 2, 4, 5),
    ),
    "conv3d": ("Conv3d", (2, 2, 2), {"stride": (1, 2, 1), "padding": 1}, (1, 2, 3, 4, 3)),
    "conv_transpose1d": ("ConvTranspose1d", (3, 2, 3), {"stride": 2, "output_padding": 1}, (2, 3, 5)),
    "conv_transpose2d": ("ConvTranspose2d", (2, 3, 3), {}, (2, 2, 4, 3)),
    "conv_transpose2d options": (
        "ConvTranspose2d", (4, 2, (3, 2)),
        {
            "stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2), "groups": 2,
            "dilation": (1, 2), "bias": False,
        },
        (1, 4, 3, 4),
    ),
    "conv_transpose3d": ("ConvTranspose3d", (2, 1, 2), {"stride": 2, "padding": 1}, (1, 2, 2, 3, 2)),
    "max_pool1d": ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, (2, 2, 8)),
    "max_pool2d": ("MaxPool2d", (2,), {}, (2, 2, 6, 7)),
    "max_pool2d options": (
        "MaxPool2d", ((3, 2),), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
        (2, 2, 6, 7),
    ),
    "max_pool2d ceil": ("MaxPool2d", (3, 2), {"padding": 1, "ceil_mode": True}, (1, 2, 6, 5)),
    "max_pool3d": ("MaxPool3d", (2,), {}, (1, 2, 4, 4, 4)),
    "avg_pool1d": ("AvgPool1d", (3,), {"stride": 2, "padding": 1}, (2, 2, 8)),
    "avg_pool2d": ("AvgPool2d", (2,), {}, (2, 2, 6, 7)),
    "avg_pool2d ceil": ("AvgPool2d", (3, 2), {"padding": 1, "ceil_mode": True}, (1, 2, 6, 5)),
    "avg_pool2d uncounted": (
        "AvgPool2d", (3, 2), {"padding": 1, "ceil_mode": True, "count_include_pad": False},
        (1, 2, 6, 5),
    ),
    "avg_pool2d divisor": ("AvgPool2d", (2,), {"divisor_override": 3}, (1, 2, 4, 4)),
    "avg_pool3d": ("AvgPool3d", (2, 1), {}, (1, 2, 3, 3, 3)),
    "adaptive_avg_pool1d": ("AdaptiveAvgPool1d", (3,), {}, (2, 2, 7)),
    "adaptive_avg_pool2d": ("AdaptiveAvgPool2d", ((3, None),), {}, (2, 2, 7, 4)),
    "adaptive_avg_pool2d one": ("AdaptiveAvgPool2d", (1,), {}, (2, 2, 3, 4)),
    "adaptive_max_pool1d": ("AdaptiveMaxPool1d", (3,), {}, (2, 2, 7)),
    "adaptive_max_pool2d": ("AdaptiveMaxPool2d", ((3, 5),), {}, (2, 2, 7, 4)),
    "batch_norm1d": ("BatchNorm1d", (3,), {}, (4, 3)),
    "batch_norm1d long": ("BatchNorm1d", (3,), {"eps": 0.1}, (4, 3, 5)),
    "batch_norm2d": ("BatchNorm2d", (2,), {"momentum": 0.3}, (3, 2, 4, 3)),
    "batch_norm2d cumulative": ("BatchNorm2d", (2,), {"momentum": None}, (3, 2, 4, 3)),
    "batch_norm2d untracked": (
        "BatchNorm2d", (2,), {"track_running_stats": False, "affine": False}, (3, 2, 4, 3),
    ),
    "batch_norm3d": ("BatchNorm3d", (2,), {}, (2, 2, 2, 2, 3)),
    "instance_norm1d": ("InstanceNorm1d", (2,), {"affine": True}, (3, 2, 5)),
    "instance_norm2d": ("InstanceNorm2d", (2,), {}, (3, 2, 4, 3)),
    "instance_norm2d tracked": (
        "InstanceNorm2d", (2,), {"track_running_stats": True, "affine": True}, (3, 2, 4, 3),
    ),
    "instance_norm2d alone": ("InstanceNorm2d", (2,), {}, (2, 4, 3)),
    "layer_norm": ("LayerNorm", (4,), {}, (3, 2, 4)),
    "layer_norm two": ("LayerNorm", ((2, 4),), {"bias": False, "eps": 0.01}, (3, 2, 4)),
    "layer_norm plain": ("LayerNorm", (4,), {"elementwise_affine": False}, (3, 4)),
    "rms_norm": ("RMSNorm", (4,), {"eps": 0.01}, (3, 2, 4)),
    "rms_norm precision": ("RMSNorm", ((2, 4),), {}, (3, 2, 4)),
    "group_norm": ("GroupNorm", (2, 4), {}, (2, 4, 3, 2)),
    "group_norm plain": ("GroupNorm", (1, 4), {"affine": False}, (2, 4, 3)),
    "instance_norm3d": ("InstanceNorm3d", (2,), {"affine": True}, (2, 2, 2, 3, 2)),
    "adaptive_avg_pool3d": ("AdaptiveAvgPool3d", ((2, 1, 3),), {}, (2, 2, 3, 4, 5)),
    "adaptive_max_pool3d": ("AdaptiveMaxPool3d", (2,), {}, (1, 2, 3, 4, 5)),
    "lp_pool3d": ("LPPool3d", (2, 2), {"stride": 1}, (1, 2, 3, 3, 4)),
    "unfold": ("Unfold", ((2, 3),), {"stride": 2, "padding": 1}, (2, 2, 4, 5)),
    # what rearranges and pads
    "unflatten": ("Unflatten", (1, (2, 3)), {}, (2, 6, 2)),
    "channel_shuffle": ("ChannelShuffle", (2,), {}, (1, 4, 2, 3)),
    "pixel_shuffle": ("PixelShuffle", (2,), {}, (2, 4, 2, 3)),
    "pixel_unshuffle": ("PixelUnshuffle", (2,), {}, (2, 1, 4, 6)),
    "upsample": ("Upsample", (), {"scale_factor": 2}, (1, 2, 3, 2)),
    "upsample bilinear": (
        "Upsample", (), {"size": (5, 4), "mode": "bilinear", "align_corners": True}, (1, 2, 3, 2),
    ),
    "upsampling_nearest2d": ("UpsamplingNearest2d", (), {"scale_factor": 2}, (1, 2, 2, 3)),
    "upsampling_bilinear2d": ("UpsamplingBilinear2d", (), {"scale_factor": 2}, (1, 2, 3, 2)),
    "zero_pad1d": ("ZeroPad1d", (2,), {}, (2, 2, 3)),
    "zero_pad2d": ("ZeroPad2d", ((1, 0, 2, 1),), {}, (1, 2, 3, 2)),
    "zero_pad3d": ("ZeroPad3d", (1,), {}, (1, 1, 2, 2, 3)),
    "constant_pad1d": ("ConstantPad1d", ((1, 2), 3.5), {}, (2, 2, 3)),
    "constant_pad2d": ("ConstantPad2d", ((1, 0, -1, 2), -1.5), {}, (1, 2, 3, 2)),
    "constant_pad3d": ("ConstantPad3d", (1, 0.5), {}, (1, 1, 2, 2, 3)),
    "reflection_pad1d": ("ReflectionPad1d", ((2, 1),), {}, (2, 2, 4)),
    "reflection_pad2d": ("ReflectionPad2d", ((1, 2, 0, 1),), {}, (1, 2, 3, 4)),
    "reflection_pad3d": ("ReflectionPad3d", (1,), {}, (1, 1, 2, 3, 3)),
    "replication_pad1d": ("ReplicationPad1d", ((3, 1),), {}, (2, 2, 3)),
    "replication_pad2d": ("ReplicationPad2d", ((1, 2, 0, 1),), {}, (1, 2, 3, 2)),
    "replication_pad3d": ("ReplicationPad3d", (1,), {}, (1, 1, 2, 2, 3)),
    "circular_pad1d": ("CircularPad1d", ((2, 1),), {}, (2, 2, 4)),
    "circular_pad2d": ("CircularPad2d", ((1, 2, 0, 1),), {}, (1, 2, 3, 4)),
    "circular_pad3d": ("CircularPad3d", (1,), {}, (1, 1, 2, 2, 3)),
    # activations
    "celu": ("CELU", (0.5,), {}, (3, 4)),
    "gelu": ("GELU", (), {}, (3, 4)),
    "gelu tanh": ("GELU", (), {"approximate": "tanh"}, (3, 4)),
    "hardshrink": ("Hardshrink", (0.7,), {}, (3, 4)),
    "hardswish": ("Hardswish", (), {}, (3, 4)),
    "hardtanh": ("Hardtanh", (-0.5, 0.8), {}, (3, 4)),
    "leaky_relu": ("LeakyReLU", (0.2,), {}, (3, 4)),
    "log_sigmoid": ("LogSigmoid", (), {}, (3, 4)),
    "mish": ("Mish", (), {}, (3, 4)),
    "relu6": ("ReLU6", (), {}, (3, 4)),
    "selu": ("SELU", (), {}, (3, 4)),
    "silu": ("SiLU", (), {}, (3, 4)),
    "softplus": ("Softplus", (2, 1), {}, (3, 4)),
    "softshrink": ("Softshrink", (0.3,), {}, (3, 4)),
    "softsign": ("Softsign", (), {}, (3, 4)),
    "tanhshrink": ("Tanhshrink", (), {}, (3, 4)),
    "threshold": ("Threshold", (0.2, -3.0), {}, (3, 4)),
    "softmax": ("Softmax", (1,), {}, (3, 4)),
    "softmax2d": ("Softmax2d", (), {}, (2, 3, 2, 2)),
    "softmin": ("Softmin", (-1,), {}, (3, 4)),
    "log_softmax": ("LogSoftmax", (), {"dim": 0}, (3, 4)),
}  # fmt: skip


def numbers(shape: tuple[int, ...], start: float) -> Any:
    """Numbers without a pattern that PyTorch and NumPy make alike."""
    count = int(np.prod(shape))
    return np.sin(1.7 * np.arange(count) ** 1.1 + start).reshape(shape) * 1.3
