"""python -m tests.site: builds var/site. Exits with 1 if the documents have errors."""

from __future__ import annotations

import shutil
import sys

from tests.site import generated, sources
from tests.site.build import build
from tests.site.moved import MOVED
from tests.site.navigation import index

SOURCE = sources.ROOT / "var" / "site-source"
SITE = sources.ROOT / "var" / "site"


def main() -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    sources.lay(sources.ROOT, SOURCE)
    for name, text in generated.pages().items():
        sources.write(SOURCE / f"{name}.md", text)
    sources.write(SOURCE / "index.md", index((sources.ROOT / "docs" / "index.md").read_text()))
    built = build(SOURCE, SITE)
    sys.stderr.write(built.errors)
    if not built.sound:
        sys.stderr.write("the site is not built: fix the errors above, in the file of the same name outside var/\n")
        return 1
    sys.stdout.write(
        f"{len(list(SITE.rglob('*.html'))) - len(MOVED)} pages: {SITE.relative_to(sources.ROOT)}/index.html\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
