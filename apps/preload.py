"""Loads everything that pages need before the web server serves, so that no page loads it at its first use."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from django.forms.renderers import get_default_renderer
from django.template import engines
from django.template.loader import get_template
from django.urls import get_resolver

# Modules that functions import, because the other processes start faster without them.
MODULES = (
    "scipy.optimize",
    "scipy.signal",
    "scipy.special",
    "scipy.stats",
)


def load_pages() -> None:
    """Load views, modules and templates of all pages."""
    get_resolver().url_patterns  # noqa: B018 - reading it loads it
    for name in MODULES:
        import_module(name)
    for folder in engines["django"].dirs:
        for template in Path(folder).rglob("*.html"):
            get_template(str(template.relative_to(folder)))
    of_forms: Any = get_default_renderer()
    for name in of_forms.engine.env.list_templates():
        of_forms.get_template(name)
