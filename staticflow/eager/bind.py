"""What the class of tensors gets of the rest of the eager mode, which is written without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from staticflow.eager import device as devices
from staticflow.eager import indexed, layout
from staticflow.eager.expression import copy_of, expression_of
from staticflow.eager.fused import fused_form
from staticflow.eager.in_place import copy_saved
from staticflow.eager.memory import versions
from staticflow.eager.mode import EAGER
from staticflow.eager.noted_programs import program_op
from staticflow.eager.row_gradient import step_rows
from staticflow.eager.tape import install_walk
from staticflow.eager.updates import in_place_form
from staticflow.eager.vjp_plans import install_native, vjp_of
from staticflow.graph.op import Op
from staticflow.ops import OPS
from staticflow.ops.declaring.by_shape import BY_SHAPE, remember_by
from staticflow.ops.declaring.eager_side import EagerSide, install
from staticflow.ops.declaring.fused import FUSED
from staticflow.ops.indexing.data_dependent import (
    bincount_op,
    masked_select_op,
    nonzero_op,
    unique_op,
)
from staticflow.ops.tensors.methods import REFLECTED, Methods
from staticflow.runtime.once import once

__all__ = ["bind", "inherited_members"]


def bind(tensor: Any) -> None:
    """Install the eager mode of this class, which is given the fast forms of what it would have
    from `Methods` when `EagerMode` prepares them."""
    install(EagerSide(
        tensor=tensor,
        mode=EAGER,
        prepare=partial(_install_forms, tensor),
        wrap=tensor._wrap,
        copy=copy_of,
        protect=layout.protect,
        own=layout.own,
        versions=versions,
        expression=expression_of,
        fused=fused_form,
        in_place=in_place_form,
        copy_saved=copy_saved,
        step_rows=step_rows,
        prints=tensor._wrap(np.zeros((), np.int64)),
    ))  # fmt: skip


def inherited_members() -> dict[str, Any]:
    """What the class has from `Methods`, by name."""
    return {name: m for c in reversed(Methods.__mro__) for name, m in vars(c).items()}


@once
def _install_forms(tensor: Any) -> Mapping[Op, Any]:
    """Give the class the native methods and operators of `staticflow.eager.fast`, which is imported
    now: most programs that compile a step never need it. Gives the functions."""
    from staticflow.eager.fast.forms import fast_forms
    from staticflow.eager.fast.in_place_forms import in_place_methods

    own = inherited_members()
    methods = {name: m for name, m in own.items() if isinstance(m, Op)}
    reflected = {name: REFLECTED[m] for name, m in own.items() if m in REFLECTED}
    getters = {name: m.fget for name, m in own.items() if isinstance(m, property)}
    known = {**own, **getters, "to": devices.to, "cpu": devices.cpu}
    marked = {name: BY_SHAPE[m] for name, m in known.items() if m in BY_SHAPE}
    remembered: list[Callable[..., Any]] = [
        *(m.written for m in BY_SHAPE.values()),
        indexed.get,
        vjp_of,
    ]
    fast = fast_forms(
        [*OPS.values(), nonzero_op, masked_select_op, bincount_op, unique_op, program_op],
        {*methods.values()}, {*reflected.values()},
        tensor, EAGER.general, EAGER.finish, remembered, in_place_methods(own),
    )  # fmt: skip
    for name, form in fast.in_place.items():
        setattr(tensor, name, form)
    for names, made in ((methods, fast.methods), (reflected, fast.reflected)):
        for name, op in names.items():
            if op in made:
                setattr(tensor, name, made[op])
    tensor.__sf_forms__ = fast.direct
    install_native(fast.remembered.get(vjp_of))
    install_walk(fast.walk_on)
    for m in BY_SHAPE.values():
        m.form = fast.remembered.get(m.written, m.written)
    remember_by(fast.remember)
    if fast.remember is not None:
        for f in FUSED:
            f.form = f.form and fast.remember(f.form)
    for name, m in marked.items():
        method = fast.remembered_methods.get(m.written, m.written)
        setattr(tensor, name, property(method) if name in getters else method)
    tensor.__getitem__ = fast.remembered_methods.get(indexed.get, indexed.get)
    return fast.functions
