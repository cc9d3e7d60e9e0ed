"""A campaign as a document that needs no server: HTML and Markdown. PDF is in `pdf`."""

from apps.results.report.html import report_html
from apps.results.report.markdown import report_markdown

__all__ = ["report_html", "report_markdown"]
