"""Reference of workloads and collectors, from the agent's registries."""

from __future__ import annotations

from agents.collectors import COLLECTORS, Collector
from agents.workloads import WORKLOADS, Metric, Workload
from tests.documents.settings_table import fields
from tests.site import markdown

WORKLOADS_HEAD = """\
# Tools of a workload

Every tool that a step may name as its `kind`, with the options of the form and the API, and its figures. Generated
from the agent's registry. [Workloads](../docs/reference/workloads.md) explains steps.

"""
FIGURES_HEAD = """\
# Collectors

The samples that collectors take on a host during a step, one per second unless the campaign says otherwise. Each is a
time series of the run; `<word>` stands for any name, such as a CPU. Generated from the agent's registry.

"""


def workloads() -> str:
    return WORKLOADS_HEAD + "\n".join(_workload(workload) for workload in WORKLOADS.values())


def _workload(kind: Workload) -> str:
    options = [(f"`{path}`", values, about) for path, values, about in fields(kind.schema)]
    lines = [f"## {kind.kind}\n", f"{kind.title}. {kind.help.rstrip('.')}.\n", _wants(kind)]
    lines += ["Options:\n", markdown.table(("option", "accepts", "about"), options)]
    return "\n".join([*lines, *(["Figures:\n", _metrics(kind.metrics, kind.main)] if kind.metrics else [])])


def _wants(kind: Workload) -> str:
    parts = [f"On the host: {markdown.code(kind.tools)}" if kind.tools else "On the host: no further tools"]
    parts += ["with PostgreSQL"] if kind.needs_postgres else []
    parts += ["in a directory that is allowed"] if kind.needs_directory else []
    since = [f"`{name}` from PostgreSQL {first} on" for name, first in kind.since.items()]
    return ", ".join(parts) + "." + (f" {', '.join(since)}." if since else "") + "\n"


def _metrics(metrics: dict[str, Metric], main: tuple[str, ...]) -> str:
    rows = [
        (f"`{name}`", each.unit, each.better, "yes" if name in (main or metrics) else "")
        for name, each in metrics.items()
    ]
    return markdown.table(("figure", "unit", "better", "in summaries"), rows)


def figures() -> str:
    return FIGURES_HEAD + "\n".join(_collector(collector) for collector in COLLECTORS.values())


def _collector(kind: type[Collector]) -> str:
    rows = [(f"`{name}`", each.unit, each.help, each.group) for name, each in kind.columns.items()]
    needs = " Needs PostgreSQL." if kind.needs_postgres else ""
    return f"## {kind.name}\n\n{kind.help.rstrip('.')}.{needs}\n\n" + markdown.table(
        ("column", "unit", "content", "group"), rows
    )
