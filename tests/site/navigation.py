"""The section of each page: those of docs/ by its folders."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.site import markdown


@dataclass(frozen=True)
class Section:
    """A section of the site, its purpose for a reader, and its pages in order, by their paths without .md."""

    title: str
    purpose: str
    pages: tuple[str, ...]


RECIPES = "how-to/recipes"
SECTIONS = (
    Section(
        "Start",
        "Learn it by doing it once, and prepare hosts.",
        ("docs/tutorial", "docs/hosts"),
    ),
    Section(
        "Guides",
        "Get one thing done: from a question to a decision.",
        (
            f"{RECIPES}/index",
            "docs/guides/recipes",
            "docs/guides/campaigns",
            "docs/guides/campaigns-running",
            "docs/guides/schedules",
            "docs/guides/search",
            "docs/guides/boot",
            "docs/guides/roles",
            "docs/guides/remote",
            "docs/guides/datasets",
            "docs/guides/twin",
            "docs/guides/exploring",
            "docs/guides/importing",
            "docs/guides/decisions",
        ),
    ),
    Section(
        "Operations",
        "Run the server for others, and keep it safe.",
        (
            "docs/operations/production",
            "docs/operations/runbook",
            "docs/operations/teams",
            "docs/operations/identity",
            "docs/operations/notifications",
            "docs/operations/security",
        ),
    ),
    Section(
        "Reference",
        "Look it up. Most of these pages are generated from the code.",
        (
            "docs/reference/glossary",
            "docs/reference/settings",
            "reference/workloads",
            "docs/reference/workloads",
            "docs/reference/pgbench",
            "docs/reference/tpcc",
            "reference/figures",
            "docs/reference/formats",
            "docs/reference/cli",
            "reference/command-line",
            "docs/reference/api",
            "reference/api",
            "docs/reference/permissions",
            "reference/errors",
            "reference/variables",
            "reference/management",
            "reference/metrics",
        ),
    ),
    Section(
        "Background",
        "Understand the reasons, and how far to trust the results.",
        (
            "docs/background/statistics",
            "docs/background/proof",
            "docs/background/faults",
            "docs/background/benchmarks",
        ),
    ),
    Section(
        "The project",
        "Contribute, report problems, and see changes.",
        ("README", "docs/index", "CONTRIBUTING", "SECURITY", "CHANGELOG", "cli/README"),
    ),
)
# Of pages whose heading says too little here.
TITLES = {"README": "README", "cli/README": "README of the command line"}
# What pages are for that docs/index.md does not name.
MADE = {
    f"{RECIPES}/index": "run one of the included campaigns",
    "reference/workloads": "know each tool: its options, what it needs on the host, its figures",
    "reference/figures": "know the samples that collectors take during a run, with units",
    "reference/command-line": "read the help of every command of `proving`",
    "reference/api": "find an address of the API, and the role that it needs",
    "reference/errors": "know what an error means, and its cause",
    "reference/variables": "look up a variable of the environment",
    "reference/management": "read the help of every command of `manage.py`",
    "reference/metrics": "know the metrics for Prometheus",
    "README": "see what Proving Ground does, and try it",
    "docs/index": "know the basic terms, and find a page by purpose",
    "CONTRIBUTING": "change the code",
    "SECURITY": "report a vulnerability",
    "CHANGELOG": "know what changed in each version",
    "cli/README": "install the command line by itself",
}
LEAD = """\
# Proving Ground

PostgreSQL benchmark campaigns on your own Linux hosts. A campaign has a question, randomised runs with proven settings,
and an answer with its confidence interval. A decision keeps the evidence. The [README](README.md) explains how to try
it.
"""


def index(wishes: str) -> str:
    """The first page. `wishes` is docs/index.md, whose table says what each page of docs/ is for."""
    purposes = _wishes(wishes) | MADE
    return LEAD + "".join(_section(section, purposes) for section in SECTIONS)


def _wishes(text: str) -> dict[str, str]:
    """Path of a page -> the reader's purpose."""
    pairs = [row for row in markdown.rows(text) if len(row) == 2]
    return {f"docs/{name}": wish for wish, links in pairs for name in re.findall(r"\(([a-z/-]+)\.md\)", links)}


def _section(section: Section, wishes: dict[str, str]) -> str:
    purposes = {page: f": {wishes[page]}" if page in wishes else "" for page in section.pages}
    lines = [f"- [{TITLES.get(page, '')}](/{page}.md){purpose}" for page, purpose in purposes.items()]
    entries = [f"{TITLES[page]} <{page}>" if page in TITLES else page for page in section.pages]
    tree = ["```{toctree}", ":hidden:", f":caption: {section.title}", "", *entries, "```"]
    return "\n".join(["", f"## {section.title}", "", section.purpose, "", *lines, "", *tree, ""])
