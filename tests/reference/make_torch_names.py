"""Writes ``docs/torch-names.md``: ``python tests/reference/make_torch_names.py``, with PyTorch.

``test_torch_names.py`` holds the page to it.
"""

from __future__ import annotations

import re
import types
import warnings
from pathlib import Path
from typing import Any

import torch

import staticflow as sf

PAGE = Path(__file__).parents[2] / "docs" / "torch-names.md"

ROOMS: dict[str, tuple[Any, Any]] = {
    "torch": (torch, sf),
    "torch.Tensor": (torch.Tensor, sf.Tensor),
    "torch.nn": (torch.nn, sf.nn),
    "torch.nn.functional": (torch.nn.functional, sf.nn.functional),
    "torch.linalg": (torch.linalg, sf.linalg),
    "torch.special": (torch.special, sf.special),
    "torch.optim": (torch.optim, sf.optim),
}
"""PyTorch's rooms, and ours of the same names."""

GROUPS: tuple[tuple[str, str], ...] = (
    (
        "PyTorch's inside: its compiler of scripts, its storages, its dispatch",
        r"[A-Z]\w*(Type|Storage|Reader|Writer|Serializer|Logger|Error|Key|KeySet|Guard|Context|Script\w*|Iterator)"
        r"|(Script|LiteScript|Concrete|Static)\w+|AVG|SUM|PRIVATE_OPS|USE_\w+|AggregationType|AliasDb|Argument\w*"
        r"|Benchmark\w+|Block|CallStack|Capsule|Code|CompilationUnit|DeepCopyMemoTable|DispatchKeySet"
        r"|DisableTorchFunction\w*|ErrorReport|ExecutionPlan|FileCheck|FunctionSchema|Future|Gradient|Graph\w*|IODescriptor"
        r"|Node|OperatorInfo|Stream|Event|Tag|ThroughputBenchmark|TracingState|Type|Use|Value|\w+Storage\w*|Storage"
        r"|Sym(Bool|Float|Int)|import_ir\w+|parse_\w+|merge_type\w+|unify_type\w+|fork|wait|classproperty|sym_\w+"
        r"|get_file_path|is_storage|typename|has_(lapack|mkl|openmp|spectral)|compiled_with\w+|from_file|to_dlpack"
        r"|(init|get|set)_num_(interop_)?threads|prepare_multi\w+|profiler_\w+|thread_safe_generator|\w*deterministic\w*"
        r"|is_(vulkan|distributed|warn)\w*|set_warn_always|set_flush_denormal|\w*anomaly\w*|BroadcastingList\d|boolean_dispatch"
        r"|(handle|has)_torch_function\w*|assert_int\w+|TYPE_CHECKING|\w+_notes|common_\w+|multi_dim_common|Tensor"
        r"|as_subclass|const_data_ptr|is_set_to|module_load|reinforce|volatile|record_stream|is_shared|share_memory_|dim_order"
        r"|grad_dtype|map2_|storage\w*|untyped_storage|new|factory_kwargs|Container|swap_in\w+|get_device\w*"
        r"|reproducibility\w*|GRID_SAMPLE\w+|ScalingType|SwizzleType|hash_tensor|BufferDict|CompleteArgumentSpec"
        r"|JITException|LoggerBase|StorageBase|ModuleDict|ParameterDict",
    ),
    (
        "other devices, and what is chosen for them",
        r"(cudnn|miopen|mkldnn|fbgemm)_\w+|is_(ipu|maia|mkldnn|mps|mtia|vulkan|xla|xpu)|ipu|mtia|xpu|to_mkldnn|DataParallel"
        r"|SyncBatchNorm|batch_norm_(backward|elemt|gather|stats|update)\w*|GradScaler|[gs]et_default_device",
    ),
    ("casting by regions of a program", r"\w*autocast\w*"),
    (
        "complex numbers",
        r"c(double|float|half)|chalf|complex\w*|conj\w*|imag|real|is_conj|is_neg|resolve_(conj|neg)|view_as_(complex|real)\w*"
        r"|polar|angle|i?stft|eig|eigvals",
    ),
    (
        "sparse tensors and other layouts",
        r"\w*sparse\w*|\w*(ccol|crow|col|row)_indices\w*|values(_copy)?|indices(_copy)?|to_dense|coalesce|is_coalesced"
        r"|dense_dim|s?spmm|s?smm|[dh]s[pm]m|hspmm|saddmm|sspaddmm|jagged|layout|strided|\w*memory_format|\w*_format"
        r"|channels_last\w*|to_padded_tensor|SparseAdam|_?nested\w*|index",
    ),
    (
        "quantized tensors, and dtypes of few bits",
        r"\w*quant\w*|q_\w+|qscheme|q?u?int\d\w*|bit\w*|float[48]_\w+|per_(tensor|channel)_\w+|int_repr|(grouped|scaled)_\w*mm"
        r"|scaled_grouped_mm|choose_qparams\w*|fused_moving_avg\w*",
    ),
    (
        "in place as functions: the methods do it, `x.exp_()`",
        r"(?!__)\w+[^_]_",
    ),
    (
        "functions of layers in a second place: they are in `nn.functional`",
        r"adaptive_\w+_pool1d|alpha_dropout|avg_pool1d|batch_norm|bilinear|binary_cross_entropy_with_logits|celu|channel_shuffle"
        r"|conv\w+|cosine_embedding_loss|ctc_loss|embedding_bag|feature_\w*dropout|group_norm|hardshrink|hinge_embedding_loss"
        r"|instance_norm|kl_div|layer_norm|margin_ranking_loss|max_pool[123]d|pixel_(un)?shuffle|poisson_nll_loss|prelu"
        r"|rms_norm|rrelu|triplet_margin_loss|affine_grid_generator|grid_sampler\w*|constant_pad_nd",
    ),
    (
        "what layers are made of in PyTorch: use the layer",
        r"(gru|lstm|rnn_relu|rnn_tanh)(_cell)?|native_\w+|norm_except_dim|max_pool\dd_with_indices|\w+_with_indices"
        r"|multi_head_attention_forward|RNNBase|RNNCellBase|Buffer|nuclear_norm|frobenius_norm|unsafe_\w+",
    ),
    (
        "copies of views, and views of memory by strides",
        r"\w+_copy|slice_inverse|as_strided\w*|empty_(strided|permuted)|new_empty_strided|resize(_as)?|fill|frombuffer",
    ),
    (
        "old names that PyTorch itself has left or advises against",
        r"eig|lstsq|symeig|matrix_rank|solve|lu|orgqr|range|row_stack|lu_solve|triangular_solve|NLLLoss2d"
        r"|upsample_(bilinear|nearest)|set_default_tensor_type|CrossMapLRN2d|elu_",
    ),
    (
        "factors that are not kept",
        r"l(u|dl)_\w+|lu|geqrf|householder_product|ormqr|lobpcg|(cholesky|inv|solve)_ex",
    ),
    (
        "functions that nothing here needed yet",
        r"airy_ai|bessel_\w+|\w+_polynomial_\w+|gammaincc?|igammac?|modified_bessel_k\d|scaled_modified_bessel_k\d"
        r"|spherical_bessel_j0|zeta|histogramdd|segment_reduce|binomial|poisson"
        r"|LinearCrossEntropyOptions",
    ),
)
"""Why names are missing, by what they are; the first that a name matches counts."""

REST = "not yet, without a reason"


def names_of(room: Any) -> list[str]:
    """The public names of PyTorch's ``room``, without modules and what is of other libraries."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dir(room):
            value = getattr(room, name, None)
            if name.startswith("_") or isinstance(value, types.ModuleType):
                continue
            origin = str(getattr(value, "__module__", None) or "torch")
            if room is torch.Tensor or origin.startswith("torch"):
                found.append(name)
    return found


def reason_of(name: str) -> str:
    """Why ``name`` is missing."""
    return next((why for why, names in GROUPS if re.fullmatch(names, name)), REST)


def has(room: Any, name: str) -> bool:
    """Whether ``room`` has ``name``, whatever reading it says."""
    return name in dir(room) or hasattr(type(room), name) or hasattr(room, name)


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page() -> str:
    """The page."""
    lines = [
        "# Names of PyTorch",
        "",
        "Every public name of seven rooms of PyTorch, whether it is here, and if not, why. What a name that is here",
        "does otherwise is in [the differences](pytorch-differences.md).",
        "`python tests/reference/make_torch_names.py` writes this page, of PyTorch 2.13.",
        "",
        "| room | names | here | missing |",
        "|---|---|---|---|",
    ]
    rooms = {}
    for title, (theirs, ours) in ROOMS.items():
        names = names_of(theirs)
        missing = [name for name in names if not has(ours, name)]
        rooms[title] = names, missing
        lines.append(f"| `{title}` | {len(names)} | {len(names) - len(missing)} | {len(missing)} |")
    for title, (names, missing) in rooms.items():
        lines += ["", f"## {title}", "", "| | |", "|---|---|"]
        lines.append(f"| here | {_listed([n for n in names if n not in set(missing)])} |")
        for why in dict.fromkeys((*(w for w, _ in GROUPS), REST)):
            chosen = [name for name in missing if reason_of(name) == why]
            if chosen:
                lines.append(f"| missing: {why} | {_listed(chosen)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
