"""Charts that Chromium draws, once each script is in its cache and with an empty cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
# When Plotly has drawn the figure of a page, and how long after its request began.
WATCH = """
window.drawn = new Promise((resolve) => document.addEventListener("DOMContentLoaded", () => {
  const plot = document.querySelector("[data-figure]");
  new MutationObserver(() => resolve(performance.now())).observe(plot, { attributeFilter: ["data-drawn"] });
}));
"""
ASK = """async () => {
  const drawn = await window.drawn;
  const figure = new URL(document.querySelector("[data-figure]").dataset.figure, location.href).pathname;
  const asked = performance.getEntriesByType("resource").find((each) => new URL(each.name).pathname === figure);
  return drawn - asked.startTime;
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    from tests.session.needs import find_browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=CHROMIUM)
        yield browser
        browser.close()


def drawn(browser: Browser, base_url: str, cookie: str, paths: dict[str, str], times: int) -> dict[str, list[float]]:
    """Milliseconds from the request of the figure until Plotly had drawn it."""
    durations: dict[str, list[float]] = {}
    page = _page(browser, base_url, cookie)
    for name, path in paths.items():
        for _ in range(times):
            page.goto(path)
            durations.setdefault(name, []).append(float(page.evaluate(ASK)))
    page.context.close()
    return durations


def opened(browser: Browser, base_url: str, cookie: str, paths: dict[str, str], times: int) -> dict[str, list[float]]:
    """Milliseconds from the navigation to a page until Plotly had drawn its chart; each time with an empty cache."""
    durations: dict[str, list[float]] = {}
    for name, path in paths.items():
        for _ in range(times):
            page = _page(browser, base_url, cookie)
            page.goto(path)
            durations.setdefault(name, []).append(float(page.evaluate("() => window.drawn")))
            page.context.close()
    return durations


def _page(browser: Browser, base_url: str, cookie: str) -> Page:
    context = browser.new_context(base_url=base_url, viewport={"width": 1280, "height": 900})
    context.add_cookies([{"name": "sessionid", "value": cookie, "url": base_url}])
    page = context.new_page()
    page.add_init_script(WATCH)
    return page
