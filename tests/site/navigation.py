"""The section of each page, after Diátaxis: learning, doing, looking up, understanding."""

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
    Section("Tutorial", "Learn it by doing it once, from a clone to a decision.", ("docs/tutorial",)),
    Section(
        "How-to guides",
        "Get one thing done.",
        (
            f"{RECIPES}/index",
            "docs/recipes",
            "docs/hosts",
            "docs/boot",
            "docs/roles",
            "docs/remote",
            "docs/datasets",
            "docs/twin",
            "docs/campaigns-running",
            "docs/schedules",
            "docs/search",
            "docs/exploring",
            "docs/importing",
            "docs/cli",
            "docs/api",
            "docs/notifications",
            "docs/teams",
            "docs/identity",
            "docs/production",
            "docs/runbook",
        ),
    ),
    Section(
        "Reference",
        "Look it up. Most of these pages are generated from the code.",
        (
            "docs/glossary",
            "docs/settings",
            "reference/workloads",
            "docs/workloads",
            "docs/pgbench",
            "docs/tpcc",
            "reference/figures",
            "docs/formats",
            "reference/command-line",
            "reference/api",
            "docs/permissions",
            "reference/errors",
            "reference/variables",
            "reference/management",
            "reference/metrics",
        ),
    ),
    Section(
        "Explanation",
        "Understand the reasons, and how far to trust the results.",
        (
            "docs/statistics",
            "docs/campaigns",
            "docs/decisions",
            "docs/proof",
            "docs/faults",
            "docs/security",
            "docs/benchmarks",
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
