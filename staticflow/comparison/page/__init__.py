"""A comparison as one HTML page, which loads nothing, and reads on a phone and on paper."""

from staticflow.comparison.page.chart import MissingReportError, check_report
from staticflow.comparison.page.document import render_page, write_page

__all__ = ["MissingReportError", "check_report", "render_page", "write_page"]
