"""Hooks of the whole test suite."""

import os

import pytest
from calling import call_path
from filetests import pytest_addoption, pytest_collect_file
from slices import DAY, today

__all__ = ["call_path", "pytest_addoption", "pytest_collect_file"]


def pytest_configure(config: pytest.Config) -> None:
    """The day is one for the whole run: workers inherit it, also those that start after midnight."""
    os.environ[DAY] = today()


def pytest_report_header() -> str:
    """The line above the tests that says which day's share of the generated checks runs."""
    return f"generated checks of {DAY}={today()}"
