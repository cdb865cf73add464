"""Hooks of the whole test suite."""

from calling import call_path
from filetests import pytest_addoption, pytest_collect_file

__all__ = ["call_path", "pytest_addoption", "pytest_collect_file"]
