"""The pages of the checkout with their positions in the site, and the files that they link to.

A file that is no page is a download. A folder that is linked to becomes a page that lists its files.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "cli/README.md")
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?\)")


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def lay(root: Path, source: Path) -> None:
    """The pages below `root` and what they link to, in `source`."""
    pages = sorted(page for pattern in PAGES for page in root.glob(pattern))
    for page in pages:
        linked = {path: _linked(root, page, path) for _, path, _ in LINK.findall(page.read_text())}
        targets = {path: file for path, file in linked.items() if file is not None}
        for file in set(targets.values()) - set(pages):
            _ship(root, source, file)
        folders = {path for path, file in targets.items() if file.is_dir()}
        write(source / page.relative_to(root), _to_pages(page.read_text(), folders))


def _linked(root: Path, page: Path, path: str) -> Path | None:
    """What of the checkout a link leads to; None where that is nothing, or outside of it."""
    if "://" in path:
        return None
    file = Path(os.path.normpath(page.parent / path))
    return file if file.is_relative_to(root) and file.exists() else None


def _ship(root: Path, source: Path, file: Path) -> None:
    copy = source / file.relative_to(root)
    if file.is_dir():
        write(copy / "index.md", _listing(root, source, file))
    else:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def _listing(root: Path, source: Path, folder: Path) -> str:
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    for file in files:
        _ship(root, source, file)
    lines = [f"- [`{file.name}`]({file.name})" for file in files]
    return "\n".join(["---", "orphan: true", "---", "", f"# {folder.relative_to(root)}", "", *lines, ""])


def _to_pages(text: str, folders: set[str]) -> str:
    """The text with links to folders leading to the pages of these."""

    def lead(link: re.Match[str]) -> str:
        before, path, fragment = link.groups()
        return f"{before}{path.rstrip('/')}/index.md{fragment or ''})" if path in folders else link[0]

    return LINK.sub(lead, text)
