"""A campaign as a document that tells the whole of it without a server: HTML, PDF, Markdown."""

from apps.results.report.html import report_html
from apps.results.report.markdown import report_markdown
from apps.results.report.pdf import report_pdf

__all__ = ["report_html", "report_markdown", "report_pdf"]
