"""Every page that is generated from the code: path without .md -> text."""

from __future__ import annotations

import os
import sys

import django

from tests.site.sources import ROOT

sys.path.append(str(ROOT / "cli"))  # a separate distribution, which is not installed here
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
django.setup()

from tests.site.generated_pages import api_page, commands, problems, recipe_pages, tools, variables  # noqa: E402


def pages() -> dict[str, str]:
    made = {
        "reference/workloads": tools.workloads(),
        "reference/figures": tools.figures(),
        "reference/command-line": commands.command_line(),
        "reference/management": commands.management(),
        "reference/api": api_page.page(),
        "reference/errors": problems.page(),
        "reference/variables": variables.page(),
        "reference/metrics": variables.metrics(),
    }
    return made | recipe_pages.pages()
