"""Problems that axe finds on a page."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


def violations(page: Page, *tags: str) -> list[str]:
    """One line for each rule that the page breaks, of the rules with `tags`, or of axe's defaults."""
    # Without resultTypes, axe also describes each element that is right, which takes longer than the check.
    # Nor does a rule of these need what it would preload: style sheets once more, and media.
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    options |= {"runOnly": list(tags)} if tags else {}
    broken_rules = Axe().run(page, options=options).response["violations"]
    return [
        f"{broken_rule['id']}: {broken_rule['help']}: {[node['html'][:160] for node in broken_rule['nodes'][:3]]}"
        for broken_rule in broken_rules
    ]
