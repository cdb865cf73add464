"""Hooks of the whole test suite."""

from calling import call_path
from filetests import pytest_addoption, pytest_collect_file
from slices import today

__all__ = ["call_path", "pytest_addoption", "pytest_collect_file"]


def pytest_report_header() -> str:
    """The line above the tests that says which day's share of the generated checks runs."""
    return f"generated checks of STATICFLOW_TEST_DAY={today()}"
