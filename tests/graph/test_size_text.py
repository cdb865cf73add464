"""Sizes survive being printed and read."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from staticflow.errors import ParseError
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, dim_max, dim_min, floor_div
from staticflow.graph.size_text import parse_size

N, M = Sym("n"), Sym("m")
SYMBOLS = {"n": N, "m": M, "i": Sym("i", 0, Dim.of(N)), "j": Sym("j", 0, Dim.of(N) * Dim.of(M))}

atoms = st.sampled_from([Dim.of(s) for s in SYMBOLS.values()]) | st.integers(-9, 9)


def combine(parts: st.SearchStrategy[Size]) -> st.SearchStrategy[Size]:
    positive = st.sampled_from([2, 3, 7, Dim.of(N), Dim.of(N) * Dim.of(M), Dim.of(N) + 1])
    return st.one_of(
        st.builds(lambda a, b: a + b, parts, parts),
        st.builds(lambda a, b: a - b, parts, parts),
        st.builds(lambda a, b: a * b, parts, parts),
        st.builds(floor_div, parts, positive),
        st.builds(ceil_div, parts, positive),
        st.builds(lambda a, b: a % b, parts, positive),
        st.builds(dim_max, parts, parts),
        st.builds(dim_min, parts, parts),
    )


@given(st.recursive(atoms, combine, max_leaves=6))
@settings(deadline=None, max_examples=300)
def test_the_text_of_a_size_is_read_back(size: Size) -> None:
    assert parse_size(str(size), SYMBOLS) == size


@given(st.recursive(atoms, combine, max_leaves=6))
@settings(deadline=None, max_examples=100)
def test_the_text_of_a_size_means_to_python_what_it_is(size: Size) -> None:
    names = {name: Dim.of(s) for name, s in SYMBOLS.items()} | {"max": dim_max, "min": dim_min}
    assert eval(str(size), names) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a size, found the end of the text"),
        ("n +", "expected a size, found the end of the text"),
        ("n m", "expected the end of the text, found 'm'"),
        ("(n", "expected ')', found the end of the text"),
        ("max(n)", "expected ',', found ')'"),
        ("n * 1.5", "expected an integer, found '1.5'"),
        ("k", "expected a symbol known here (i, j, m, n), found 'k'"),
        ("n // 0", "expected a divisor other than 0, found '0'"),
    ],
)
def test_what_is_no_size_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_size(text, SYMBOLS)
    assert message in str(error.value)
