"""The whole API against its own description: python -m tests.documents.schema_check [--examples N] [--only WORDS]

schemathesis requests every operation as an admin, on a server full of rows: valid requests, invalid ones, and chains of
calls. No response may be an error of the server, have an undocumented type, or contradict the description. The first
round takes IDs from the description, the second those of existing rows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import django

from embedded.supervisor import Supervisor
from embedded.temporary import TemporaryStack
from tests.servers import remote

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "reference" / "api.md"
RECORD = re.compile(r"<!-- schema check -->.*?<!-- /schema check -->", re.DOTALL)
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
    *("response_schema_conformance", "unsupported_method", "allow_header_conformance", "ignored_auth"),
    *("missing_required_header", "use_after_free", "ensure_resource_availability"),
)
TIMEOUT_S = 7200
CONFIG = """\
suppress-health-check = ["all"]
request-timeout = 60
warnings = false

[generation]
database = "none"

[checks.not_a_server_error]
# A host that does not answer is no mistake of the server, and documented as 502.
expected-statuses = ["2xx", "3xx", "4xx", 502]
"""


def rows(team: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Path -> its parameters, of rows that are there."""
    from drf_spectacular.generators import SchemaGenerator

    known, parameters = _keys(team), {}
    for path in SchemaGenerator().get_schema(request=None, public=True)["paths"]:
        room, names = path.split("/")[3], re.findall(r"{(\w+)}", path)
        keys = {name: known.get(path.split("/")[-2] if name == "id" else name + "s", known[room]) for name in names}
        parameters[path] = {name: str(key) for name, key in keys.items() if name != "file"}
    return {path: keys for path, keys in parameters.items() if keys}


def _keys(team: dict[str, Any]) -> dict[str, Any]:
    """Room, or the last word of an address -> the key of a row that suits it."""
    from apps.api_urls import router

    models = {room: viewset.queryset.model for room, viewset, _ in router.registry if hasattr(viewset, "queryset")}
    keys = {room: model.objects.order_by("pk").values_list("pk", flat=True).first() for room, model in models.items()}
    own = {"campaigns": team["finished"], "runs": team["ok_run"], "hosts": team["host"], "pause": team["running"]}
    own |= dict.fromkeys(("start", "preview", "checks"), team["draft"])
    return keys | {"settings": "postgresql", "recipes": "ours"} | {room: row.pk for room, row in own.items()}


def prepare() -> tuple[str, dict[str, dict[str, Any]]]:
    """An admin's token in a team full of rows, and their keys."""
    django.setup()
    from django.db import connection

    from apps.accounts.models import ApiToken, Role
    from apps.accounts.tokens.lifecycle import issue_token
    from tests.rows import populate

    team = populate.team()
    issue_token(team["admin"], "to be revoked", Role.VIEWER, days=1)
    _, secret = issue_token(team["admin"], "schema check", Role.ADMIN, days=1)
    with connection.cursor() as cursor:  # it finds its own token, and revokes it
        table, ours = ApiToken._meta.db_table, "old.name = 'schema check'"
        cursor.execute(f"CREATE RULE kept AS ON DELETE TO {table} WHERE {ours} DO INSTEAD NOTHING")
    return secret, rows(team)


def check(url: str, token: str, state: Path, known: dict[str, dict[str, Any]], arguments: argparse.Namespace) -> Any:
    """One round; the report of schemathesis."""
    parameters = [
        f'[[operations]]\ninclude-path = "{path}"\nparameters = {{ {_toml(keys)} }}\n' for path, keys in known.items()
    ]
    config, report = state / "schemathesis.toml", state / "report.json"
    config.write_text(CONFIG + "\n" + "\n".join(parameters))
    argv = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run"]
    argv += [f"{url}/api/schema/", "--header", f"Authorization: Bearer {token}", "--checks", ",".join(CHECKS)]
    argv += ["--report", "json", "--report-json-path", str(report), "--seed", str(arguments.seed)]
    argv += ["--max-examples", str(arguments.examples), "--phases", arguments.phases, "--continue-on-failure"]
    argv += ["--include-path-regex", arguments.only] if arguments.only else []
    env = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.documents.schema_hooks", "PYTHONPATH": str(ROOT)}
    subprocess.run(argv, check=False, timeout=TIMEOUT_S, cwd=state, stdin=subprocess.DEVNULL, env=env)
    return json.loads(report.read_text())


def _toml(keys: dict[str, str]) -> str:
    return ", ".join(f'"path.{name}" = "{key}"' for name, key in keys.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=20, help="of each operation and phase, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="addresses that match this expression")
    parser.add_argument("--phases", default="examples,coverage,fuzzing,stateful")
    parser.add_argument("--round", choices=["drawn", "rows", "both"], default="both")
    arguments = parser.parse_args()
    os.environ |= {"PROVING_API_PER_TOKEN_MIN": "0", "PROVING_API_PER_USER_MIN": "0"}
    with remote.short_dir() as state, Supervisor(state) as supervisor:
        stack = TemporaryStack(supervisor)
        stack.start_stores()
        os.environ.update(stack.environment())
        supervisor.start(stack.web)
        token, known = prepare()
        rounds = {"drawn": {}, "rows": known}
        chosen = [name for name in rounds if arguments.round in (name, "both")]
        reports = [check(stack.base_url, token, state, rounds[name], arguments) for name in chosen]
    return tell(reports, arguments)


def tell(reports: list[Any], arguments: argparse.Namespace) -> int:
    """Print the counts, and store them in the document if all endpoints were tested without an error."""
    cases = sum(report["test_cases"]["generated"] for report in reports)
    failures = sum(report["test_cases"]["unique_failures"] for report in reports)
    errors = sum(report["test_cases"]["errored"] + len(report["errors"]) for report in reports)
    operations, version = reports[0]["operations"]["tested"], reports[0]["schemathesis_version"]
    sentence = (
        f"{operations} operations, {cases} cases, {failures} failures, {errors} errors "
        f"(schemathesis {version}, {arguments.examples} examples, seed {arguments.seed}, {date.today()})."
    )
    print(sentence)
    if failures or errors:
        return 1
    if not arguments.only and arguments.round == "both":
        record = f"<!-- schema check -->\n{sentence}\n<!-- /schema check -->"
        DOCUMENT.write_text(RECORD.sub(lambda _: record, DOCUMENT.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
