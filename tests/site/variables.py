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

`docker-compose.yml` also reads these, and passes the others on.

{compose}
## The command line

{cli}
## Make, and the tests

{tests}"""
COMPOSE = {
    "POSTGRES_PASSWORD": "of the database",
    "REDIS_PASSWORD": "of Redis",
    "PORT": "on which the web server listens on 127.0.0.1; 8000 unless set. `make up` and `make demo` take it as well",
    "PROVING_IMAGE": "the image of the server, such as a published one; `proving-ground`, built here, unless set",
    "PROVING_SECRETS_DIR": "directory that containers see as `/run/secrets`; `./secrets` unless set",
    "WORKERS": "how many workers; 1 unless set",
    "DISPATCHERS": "how many dispatchers; 1 unless set",
    "WEB_MEMORY": "memory limit of web; `2g` unless set",
    "WORKER_MEMORY": "memory limit of each worker; `2g` unless set",
    "DISPATCHER_MEMORY": "memory limit of each dispatcher; `2g` unless set",
    "POSTGRES_MEMORY": "memory limit of PostgreSQL; `4g` unless set",
    "POSTGRES_MAX_CONNECTIONS": "`max_connections` of PostgreSQL; 200 unless set",
    "PROVING_TLS_DIR": "directory with `fullchain.pem` and `key.pem` for the profile `tls`; `./tls` unless set",
    "HTTP_PORT": "of the profile `tls`; 80 unless set",
    "HTTPS_PORT": "of the profile `tls`; 443 unless set",
    "BACKUP_DIR": "directory or volume of the profile `backup`; the volume `backups` unless set",
    "BACKUP_EVERY_H": "hours between two scheduled backups; 24 unless set",
    "BACKUP_KEEP": "how many scheduled backups are kept; 14 unless set",
    "PYTHON_IMAGE": "base image of the build; `python:3.13-slim` unless set",
    "POSTGRES_IMAGE": "image of PostgreSQL, and of the client programs in the build; `postgres:18` unless set",
    "REDIS_IMAGE": "image of Redis; `redis:8` unless set",
    "NGINX_IMAGE": "image of the profile `tls`; `nginx:stable` unless set",
    "PIP_INDEX_URL": "package index of the build; PyPI unless set",
    "PIP_EXTRA_INDEX_URL": "further package indexes of the build",
    "BUILD_CA": "PEM file with the CAs that the build trusts",
    "BUILD_PIP_CONF": "a pip.conf for the build, which may hold passwords",
    "PROVING_VERSION": "version in the labels of an image that is built",
    "PROVING_COMMIT": "commit in the labels of an image that is built",
}
CLI = {
    "PROVING_URL": "the server; wins over the file of `proving login`",
    "PROVING_TOKEN": "a token of the API; wins over the file, too",
    "PROVING_PATIENCE_S": "for how many seconds a server that does not answer is tried again; 10 unless set",
}
TESTS = {
    "PROVING_COMPOSE_DIR": "directory of the engine that the tests start; `/var/tmp/proving-compose` unless set",
    "PROVING_COMPOSE_KEEP": "1 keeps the images of that engine, so that the next start takes a minute less",
    "PROVING_LAB_DIR": "directory of the lab's image, key and disks; `/var/tmp/proving-lab` unless set",
    "PROVING_LAB_ACCEL": "`kvm` or `tcg`; unless set, KVM where a probe guest boots with it, else TCG",
    "PROVING_LAB_MIRROR": "URL of a Debian mirror for the lab's image; unless set, the one that apt uses here",
    "PROVING_LAB_KEEP": "1 leaves the last machine running",
    "PROVING_LAB_SEEDS": "moments of the power cuts: `0-19` covers a whole run, unless set `2,7,12,17`",
    "PROVING_LAB_SCALE": "scale of the data of `active-set` in the lab; 0, the recipe's own, with KVM; 20 with TCG",
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
    text = spelled(value)
    return f"`{text}`" if text else "none", meaning


def spelled(value: object) -> str:
    """As it would stand in the environment."""
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


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
