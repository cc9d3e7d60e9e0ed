"""The build is strict: a dead link fails it, and the error names the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.site import sources
from tests.site.__main__ import SITE
from tests.site.build import Built, build
from tests.site.moved import MOVED

pytestmark = pytest.mark.docs
INDEX = "# Index\n\n```{toctree}\ndocs/hosts\ndocs/guides/recipes\n```\n"
RECIPES = "# Recipes\n\n## How one looks\n\nAs [hosts](../hosts.md) do.\n"
SHOWN = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']([^"']+)|<link\b[^>]*\bhref=["']([^"']+)""")
FETCHED = re.compile(r"""(?:url\(|@import\s+)["']?(https?:)?//""")


# What leads nowhere, each in a line of its own from the third on, and how that is named.
DEAD = [
    ("[page](gone.md)", "gone.md"),
    ("[heading of another](guides/recipes.md#gone)", "gone"),
    ("[heading](#nowhere)", "nowhere"),
    ("[file](../apps/gone.yaml)", "../apps/gone.yaml"),
    ("![image](screenshots/gone.png)", "gone.png"),
    ("[plain](http://example.org/)", "https alone"),
    ("[no host](https://example/)", "not the name of a host"),
    ("![image](https://example.org/a.png)", "image from elsewhere"),
]


def built(folder: Path, hosts: str, *further: str) -> Built:
    """A checkout of two pages, a file and an index, as a site: docs/hosts.md is given, `further` pages are named."""
    checkout, source = folder / "checkout", folder / "source"
    sources.write(checkout / "docs" / "hosts.md", hosts)
    sources.write(checkout / "docs" / "guides" / "recipes.md", RECIPES)
    sources.write(checkout / "apps" / "recipes" / "ours.yaml", "version: 1\n")
    for name in further:
        sources.write(checkout / name, f"# {name}\n")
    sources.lay(checkout, source)
    sources.write(source / "index.md", INDEX)
    return build(source, folder / "site")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Every dead link, each a paragraph, and a page that no navigation has."""
    text = "# Hosts\n\n" + "\n\n".join(link for link, _ in DEAD) + "\n"
    return built(tmp_path_factory.mktemp("broken"), text, "docs/lost.md")


def test_pages_files_and_folders_of_the_checkout_are_reached_from_where_they_are(tmp_path: Path) -> None:
    links = "[how](guides/recipes.md#how-one-looks) [file](../apps/recipes/ours.yaml) [folder](../apps/recipes)"

    assert built(tmp_path, f"# Hosts\n\n{links}\n") == Built(True, "")
    page = (tmp_path / "site" / "docs" / "hosts.html").read_text()
    assert 'href="guides/recipes.html#how-one-looks"' in page
    assert 'href="../apps/recipes/index.html"' in page
    assert list((tmp_path / "site" / "_downloads").rglob("ours.yaml"))


@pytest.mark.parametrize(("link", "named"), DEAD)
def test_a_dead_link_fails_the_build_and_is_named_with_its_place(broken: Built, link: str, named: str) -> None:
    place = f"docs/hosts.md:{3 + 2 * [each for each, _ in DEAD].index(link)}: "

    assert not broken.sound
    assert [line for line in broken.errors.splitlines() if line.startswith(place) and named in line]


def test_a_page_in_no_navigation_fails_the_build(broken: Built) -> None:
    assert not broken.sound
    assert [line for line in broken.errors.splitlines() if "docs/lost.md" in line and "toctree" in line]


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_the_old_address_of_a_page_leads_to_the_new_one_with_its_heading(old: str, new: str) -> None:
    page = (SITE / f"{old}.html").read_text()
    (target,) = re.findall(r'location\.replace\("([^"]+)" \+ location\.hash\)', page)

    assert (SITE / old).parent.joinpath(target) == SITE / f"{new}.html"
    assert f'content="0; url={target}"' in page
    assert (SITE / f"{new}.html").exists()


def test_a_built_page_fetches_nothing_from_elsewhere() -> None:
    pages, sheets = sorted(SITE.rglob("*.html")), sorted(SITE.rglob("*.css"))
    shown = {
        address for page in pages for addresses in SHOWN.findall(page.read_text()) for address in addresses if address
    }

    assert pages and sheets
    assert [address for address in shown if re.match(r"(https?:)?//", address)] == []
    assert [sheet.name for sheet in sheets if FETCHED.search(sheet.read_text())] == []
