"""Hooks of the whole test suite."""

from filetests import pytest_addoption, pytest_collect_file

__all__ = ["pytest_addoption", "pytest_collect_file"]
