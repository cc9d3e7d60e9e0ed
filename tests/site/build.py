"""Runs Sphinx; every warning fails the build."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.site.sources import ROOT

LIMIT_S = 300


@dataclass(frozen=True)
class Built:
    """Whether the build succeeded, and one line for each problem with its page."""

    sound: bool
    errors: str


def build(source: Path, site: Path) -> Built:
    """Build the pages below `source`, whose root is index.md, as HTML in the new directory `site`."""
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory() as doctrees:
        places = ["--conf-dir", str(Path(__file__).parent), "--doctree-dir", doctrees, str(source), str(site)]
        argv = [sys.executable, "-m", "sphinx", "--builder", "html", "--quiet", "--no-color"]
        done = subprocess.run(
            [*argv, "--fail-on-warning", "--nitpicky", *places],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    return Built(done.returncode == 0, done.stderr.replace(f"{source}/", ""))
