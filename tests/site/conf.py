"""The configuration of Sphinx; tests/site/sources.py lays out the pages."""

from tests.site.moved import MOVED

project = "Proving Ground"
language = "en"
extensions = ["myst_parser", "tests.site.links"]
source_suffix = {".md": "markdown"}
# As in the repository: headings have anchors, quotes and dashes stay as they were written, no language is guessed.
myst_heading_anchors = 6
smartquotes = False
highlight_language = "none"

html_theme = "furo"
html_title = project
html_favicon = "../../static/favicon.svg"
html_static_path = ["static"]
templates_path = ["templates"]
html_additional_pages = dict.fromkeys(MOVED, "moved.html")
html_context = {"moved": MOVED}
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_show_copyright = False
