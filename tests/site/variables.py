"""Reference of the environment, and of what Prometheus is told: names and defaults read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.site import markdown
from tests.site.sources import ROOT

SETTINGS = ROOT / "apps" / "settings.py"
METRICS = ROOT / "apps" / "metrics.py"
PRODUCTION = ROOT / "docs" / "production.md"
PAGE = """\
# Variables

Every variable of the environment that a program of Proving Ground reads.

## The server

As `apps/settings.py` reads them; [In production](../docs/production.md#variables) has examples. A list is separated by
commas.

{server}
## Compose

`docker-compose.yml` takes these besides, and hands the others on.

{compose}
## The command line

{cli}
## Make, and the tests

{tests}"""
COMPOSE = {
    "POSTGRES_PASSWORD": "of the database; letters, digits, - and _ only",
    "REDIS_PASSWORD": "of Redis; likewise",
    "PORT": "on which the web server listens on 127.0.0.1; 8000 unless set. `make up` and `make demo` take it as well",
}
CLI = {
    "PROVING_URL": "the server; wins over the file of `proving login`",
    "PROVING_TOKEN": "a token of the API; wins over the file, too",
    "PROVING_PATIENCE_S": "for how many seconds a server that does not answer is tried again; 10 unless set",
}
TESTS = {
    "PROVING_LAB": "directory of the scripts that boot virtual machines, see [the lab](../CONTRIBUTING.md#the-lab)",
    "PROVING_LAB_VM": "name of the machine; `proving` unless set",
    "PROVING_LAB_KEEP": "1 leaves the machine running",
    "PROVING_LAB_SEEDS": "which power cuts, such as `0-19`",
    "PROVING_LAB_SCALE": "scale of the data of the recipe `active-set` in the lab; 0, the recipe's own, unless set",
    "PROVING_FAULTS": "file in which figures of the fault matrix are kept",
    "PROVING_FAULTS_ARMED": "set by the tests of faults for the processes that they kill",
    "PROVING_FAULTS_SHORT": "likewise: what is waited for takes seconds",
    "PROVING_EXAMPLES": "inputs that each test of the parsers is given; 200 unless set",
}


@dataclass(frozen=True)
class Variable:
    """`kind` is how it is read (str, int, list ...), `default` a Python expression; None where it must be given."""

    name: str
    kind: str
    default: str | None


def page() -> str:
    meant = {row[0].strip("`"): row for row in markdown.rows(PRODUCTION.read_text()) if len(row) == 4}
    server = [
        (f"`{each.name}`", each.kind, *_told(each, meant[each.name]))
        for each in sorted(read(SETTINGS), key=lambda each: each.name)
    ]
    return PAGE.format(
        server=markdown.table(("variable", "is", "default", "means"), server),
        compose=_plain(COMPOSE),
        cli=_plain(CLI),
        tests=_plain(TESTS),
    )


def _plain(told: dict[str, str]) -> str:
    return markdown.table(("variable", "means"), [(f"`{name}`", meaning) for name, meaning in told.items()])


def _told(variable: Variable, row: list[str]) -> tuple[str, str]:
    """Its default and what it means; where the source computes the default, it is told as the document does."""
    _, meaning, default, _ = (markdown.moved(each, "production.md", "../docs/") for each in row)
    if variable.default is None:
        return "required", meaning
    try:
        value = ast.literal_eval(variable.default)
    except ValueError:
        return default, meaning
    return _spelled(value), meaning


def _spelled(value: object) -> str:
    """As it would stand in the environment."""
    text = ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "none"


def read(file: Path) -> list[Variable]:
    """What a module reads by env.KIND("NAME", default=...)."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return [
        Variable(call.args[0].value, call.func.attr, _given(call))
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "env"
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    ]


def _given(call: ast.Call) -> str | None:
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "default"), None)
    return None if given is None else ast.unparse(given)


METRICS_PAGE = """\
# Metrics

What `GET /metrics` tells Prometheus, all of it gauges, read from `apps/metrics.py`. Who is answered, and how to scrape:
[metrics and logs](../docs/production.md#metrics-and-logs).

"""


def metrics() -> str:
    rows = [(f"`{name}`", about, f"`{label}`" if label else "") for name, about, label in gauges()]
    return METRICS_PAGE + markdown.table(("name", "what", "label"), rows)


def gauges() -> Iterator[tuple[str, str, str]]:
    """(name, help, label or nothing) of each Gauge that is made in the module."""
    tree = ast.parse(METRICS.read_text())
    nodes = list(ast.walk(tree))
    assigned = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Gauge":
            name, about, values = node.args
            label = re.match(r"_by\('(\w+)'", ast.unparse(assigned.get(ast.unparse(values), values)))
            yield ast.literal_eval(name), ast.literal_eval(about), label[1] if label else ""
