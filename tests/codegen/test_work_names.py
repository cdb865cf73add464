"""The estimate of work that tells whether threads pay: one number however it is asked for, and short
for products of unknown sizes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

import staticflow as sf
from staticflow.codegen.kernel import Kernel, Loop
from staticflow.codegen.llvm.parallel import is_worth_sharing
from staticflow.codegen.llvm.render import render_kernel
from staticflow.codegen.parts import walk
from staticflow.codegen.work import work_at, work_of
from staticflow.graph import proofs
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym, fresh_sym, terms_of
from staticflow.runtime import drafting
from staticflow.runtime.draft import Draft


class FoundError(Exception):
    """The kernels were found: no more of the program is wanted."""


def kernels_of(monkeypatch: pytest.MonkeyPatch, *inputs: sf.Symbol, of: Any) -> tuple[Kernel, ...]:
    """The kernels of a program that is not compiled to machine code."""

    def stop(draft: Draft, *_: Any) -> None:
        raise FoundError(draft.routine.kernels)

    with monkeypatch.context() as patch, pytest.raises(FoundError) as found:
        patch.setattr(drafting, "render_draft", stop)
        sf.compile(inputs, of)
    kernels: tuple[Kernel, ...] = found.value.args[0]
    return kernels


def attention() -> tuple[sf.Symbol, sf.Symbol]:
    x = sf.placeholder((None, None, None), name="x")
    return x, ((x @ x.transpose(-1, -2)).softmax(-1) @ x).square().mean()


def test_the_work_by_names_is_the_work_by_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    x, loss = attention()
    shared = longest = 0
    for kernel in kernels_of(monkeypatch, x, of=[loss, sf.grad(loss, x)]):
        for loop in walk(kernel.body):
            if not isinstance(loop, Loop) or not is_worth_sharing(loop, kernel.sizes, False):
                continue
            shared += 1
            names: dict[Sym, Size] = {}

            def name(size: Size, names: dict[Sym, Size] = names) -> Size:
                (symbol,) = symbols_of(found := fresh_sym("part"))
                names[symbol] = size
                return found

            work = work_of(loop, name)
            longest = max([longest, *(len(terms_of(size)) for size in (work, *names.values()))])
            for size in (1, 7, 300, 5000):
                values = {s: size + i for i, s in enumerate(kernel.sizes)}
                inside = {s for e in names.values() for s in symbols_of(e)} - names.keys()
                at = dict.fromkeys([*inside, *symbols_of(work)], 1) | values
                for symbol, meaning in names.items():
                    at[symbol] = evaluate_dim(meaning, at)
                assert evaluate_dim(work, at) == work_at(loop, values)
    assert shared > 5 and longest < 20


def test_lanes_that_lie_apart_count_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transposed tensor is read in four times the time, and one by indices in as much."""
    x, i = sf.placeholder((None, None), name="x"), sf.placeholder((None, None), "int64", name="i")

    def work(of: Any, *inputs: sf.Symbol) -> int:
        kernels = kernels_of(monkeypatch, *inputs, of=of)
        return sum(work_at(s, {n: 512 for n in k.sizes}) for k in kernels for s in k.body)

    plain = work(-x, x)
    assert work(-x.t(), x) > 2 * plain
    assert work(x.gather(1, i), x, i) > 2 * plain
    assert work(-x[:, ::2], x) <= plain


def test_the_text_computes_no_part_of_the_work_that_nobody_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most values of what is bound inside a loop are no part of its work. Of the products, sums and
    divisions in the text of attention with all sizes unknown one in eighty may be unused."""
    x, loss = attention()
    computed = unused = 0
    for kernel in kernels_of(monkeypatch, x, of=[loss, sf.grad(loss, x)]):
        for function in render_kernel(kernel).split("\ndefine "):
            uses = Counter(re.findall(r"%[\w.]+", function))
            found = re.findall(r"\n  (%[\w.]+) = (?:add|mul|udiv|sdiv) i64", function)
            computed += len(found)
            unused += sum(uses[name] == 1 for name in found)
    assert computed > 80 * unused


def test_proofs_are_few_beside_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the kernels of attention with all sizes unknown, fewer than one proof for each three
    statements has to be found; all else that is asked is remembered."""
    tries = 0
    prove = proofs._prove

    def count(terms: Any) -> bool:
        nonlocal tries
        tries += 1
        return prove(terms)

    monkeypatch.setattr(proofs, "_prove", count)
    x, loss = attention()
    kernels = kernels_of(monkeypatch, x, of=[loss, sf.grad(loss, x)])
    assert 0 < tries < sum(1 for k in kernels for _ in walk(k.body)) // 3
