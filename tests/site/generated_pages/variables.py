"""Reference of the environment and of the metrics for Prometheus: names and defaults read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.site import markdown
from tests.site.sources import ROOT

SETTINGS = ROOT / "apps" / "settings.py"
METRICS = ROOT / "apps" / "monitoring" / "metrics.py"
PRODUCTION = ROOT / "docs" / "operations" / "production.md"
PAGE = """\
# Variables

Every variable of the environment that a program of Proving Ground reads.

## The server

`apps/settings.py` reads them. [In production](../docs/operations/production.md#variables) has examples. Separate list
items with commas.

{server}
## Compose

`docker-compose.yml` also reads these. It passes on the others.

{compose}
## The command line

{cli}
## Make, and the tests

{tests}"""
COMPOSE = {
    "POSTGRES_PASSWORD": "password of the owner of the database",
    "RUNTIME_PASSWORD_FILE": "file with the password of the role `proving_app`, as containers see it; default "
    "`/srv/state/runtime-password`, which `migrate` creates",
    "REDIS_PASSWORD": "password of Redis",
    "PORT": "port of the web server on 127.0.0.1; default 8000. Also used by `make up` and `make demo`",
    "PROVING_IMAGE": "image of the server, such as a published one; default `proving-ground`, which is built here",
    "PROVING_SECRETS_DIR": "directory that containers see as `/run/secrets`; default `./secrets`",
    "WORKERS": "number of workers; default 1",
    "DISPATCHERS": "number of dispatchers; default 1",
    "WEB_PROCESSES": "processes of the web server; default 2",
    "WEB_MEMORY": "memory limit of web; default `2g`",
    "WORKER_MEMORY": "memory limit of each worker; default `2g`",
    "DISPATCHER_MEMORY": "memory limit of each dispatcher; default `2g`",
    "POSTGRES_MEMORY": "memory limit of PostgreSQL; default `4g`",
    "POSTGRES_MAX_CONNECTIONS": "`max_connections` of PostgreSQL; default 200",
    "PROVING_TLS_DIR": "directory with `fullchain.pem` and `key.pem` for the profile `tls`; default `./tls`",
    "HTTP_PORT": "HTTP port of the profile `tls`; default 80",
    "HTTPS_PORT": "HTTPS port of the profile `tls`; default 443",
    "BACKUP_DIR": "directory or volume of the profile `backup`; default the volume `backups`",
    "BACKUP_EVERY_H": "hours between two scheduled backups; default 24",
    "BACKUP_KEEP": "number of scheduled backups to keep; default 14",
    "PYTHON_IMAGE": "base image of the build; default `python:3.13-slim`",
    "POSTGRES_IMAGE": "image of PostgreSQL, and of the client programs in the build; default `postgres:18`",
    "REDIS_IMAGE": "image of Redis; default `redis:8`",
    "NGINX_IMAGE": "image of the profile `tls`; default `nginx:stable`",
    "PIP_INDEX_URL": "package index of the build; default PyPI",
    "PIP_EXTRA_INDEX_URL": "further package indexes of the build",
    "BUILD_CA": "PEM file with the CAs that the build trusts",
    "BUILD_PIP_CONF": "a pip.conf for the build, which may contain passwords",
    "PROVING_VERSION": "version in the labels of an image that is built",
    "PROVING_COMMIT": "commit in the labels of an image that is built",
}
CLI = {
    "PROVING_URL": "address of the server; overrides the file of `proving login`",
    "PROVING_TOKEN": "API token; overrides the file as well",
    "PROVING_ID_TOKEN": "ID token of a CI job, for `proving login --ci`",
    "PROVING_PATIENCE_S": "seconds during which requests to a server that does not answer are repeated; default 10",
}
TESTS = {
    "PROVING_COMPOSE_DIR": "directory of the engine that the tests start; default `/var/tmp/proving-compose`",
    "PROVING_COMPOSE_KEEP": "1 keeps the images of that engine, so that the next start takes a minute less",
    "PROVING_BARE_DIR": "directory of bare root file systems and their logs; default `/var/tmp/proving-bare`",
    "PROVING_UBUNTU_MIRROR": "URL of a mirror of Ubuntu for `make test-bare`; default: that of debootstrap",
    "PROVING_LAB_DIR": "directory of the lab's image, key and disks; default `/var/tmp/proving-lab`",
    "PROVING_LAB_ACCEL": "`kvm` or `tcg`; unless set, KVM where a probe guest boots with it, else TCG",
    "PROVING_LAB_MIRROR": "URL of a Debian mirror for the lab's image; unless set, the one that apt uses here",
    "PROVING_LAB_KEEP": "1 leaves the last machine running",
    "PROVING_LAB_ATTACK_S": "seconds for which local accounts attack the agent, unless set 240",
    "PROVING_LAB_SEEDS": "moments of the power cuts: `0-19` covers a whole run, unless set `2,7,12,17`",
    "PROVING_LAB_SCALE": "scale of the data of `active-set` in the lab; 0, the recipe's own, with KVM; 20 with TCG",
    "PROVING_SCREENSHOTS": "1 saves a picture of each page that the browser tests open, in `var/screenshots`",
    "PROVING_FAULTS": "file for the counts of the fault matrix",
    "PROVING_FAULTS_ARMED": "set by the fault tests for the processes that they kill",
    "PROVING_FAULTS_SHORT": "set by the fault tests to shorten waits to seconds",
    "PROVING_EXAMPLES": "number of inputs for each test of the parsers; default 200",
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
        (f"`{each.name}`", each.kind, *_described(each, meant[each.name]))
        for each in sorted(read(SETTINGS), key=lambda each: each.name)
    ]
    return PAGE.format(
        server=markdown.table(("variable", "is", "default", "means"), server),
        compose=_plain(COMPOSE),
        cli=_plain(CLI),
        tests=_plain(TESTS),
    )


def _plain(meanings: dict[str, str]) -> str:
    return markdown.table(("variable", "means"), [(f"`{name}`", meaning) for name, meaning in meanings.items()])


def _described(variable: Variable, row: list[str]) -> tuple[str, str]:
    """Its default and what it means; where the source computes the default, the default is that of the document."""
    _, meaning, default, _ = (markdown.moved(each, "operations/production.md", "../docs/") for each in row)
    if variable.default is None:
        return "required", meaning
    try:
        value = ast.literal_eval(variable.default)
    except ValueError:
        return default, meaning
    text = spelled(value)
    return f"`{text}`" if text else "none", meaning


def spelled(value: object) -> str:
    """The value as it is written in the environment."""
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


def read(file: Path) -> list[Variable]:
    """What a module reads by env.KIND("NAME", default=...)."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return [
        Variable(call.args[0].value, call.func.attr, _default(call))
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "env"
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    ]


def _default(call: ast.Call) -> str | None:
    default = next((keyword.value for keyword in call.keywords if keyword.arg == "default"), None)
    return None if default is None else ast.unparse(default)


METRICS_PAGE = """\
# Metrics

The gauges of `GET /metrics`, read from `apps/monitoring/metrics.py`. For access and scraping, see
[metrics and logs](../docs/operations/production.md#metrics-and-logs).

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
