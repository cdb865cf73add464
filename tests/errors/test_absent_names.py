"""What is left out of the package says so by name, and only to whoever asks for it."""

from __future__ import annotations

import pytest

import staticflow as sf
from staticflow.graph import absent


@pytest.mark.parametrize("name", sorted(absent.COMPLEX | absent.TRANSFORMS))
def test_a_name_that_is_left_out_says_why(name: str) -> None:
    assert not hasattr(sf, name)
    assert name not in sf.__all__
    with pytest.raises(AttributeError, match=f"no complex numbers, and so no {name}; "):
        getattr(sf, name)


def test_other_names_are_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'staticflow' has no attribute 'fftt'"):
        sf.fftt
