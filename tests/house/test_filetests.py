"""The collector of text file tests, on a file of its own."""

import pytest
from filetests import blessed, parse_case, split_cases

FILE = """# Upper case.
RUN: upper | times 2
a b
EXPECT:
old
----
RUN: fail
x
ERROR: no
"""


def test_a_case_has_commands_and_input() -> None:
    first, second = map(parse_case, split_cases(FILE))
    assert first.commands == [["upper"], ["times", "2"]]
    assert (first.input, first.kind, first.result) == ("a b\n", "EXPECT", "old")
    assert (second.kind, second.result) == ("ERROR", "no")


def test_blessing_one_case_leaves_the_others() -> None:
    text = blessed(FILE, 0, "EXPECT", "A B\nA B\n")
    first, second = split_cases(text)
    assert first == "# Upper case.\nRUN: upper | times 2\na b\nEXPECT:\nA B\nA B\n"
    assert second == "RUN: fail\nx\nERROR: no\n"
    assert split_cases(blessed(text, 1, "ERROR", "why")) == [first, "RUN: fail\nx\nERROR: why\n"]


def test_a_case_without_a_result_is_refused() -> None:
    with pytest.raises(ValueError, match="no case"):
        parse_case("RUN: upper\na\n")
