"""The table of an upgrade: requests by phase, errors in logs, locks, and what became of the runs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.upgrade.locks import Wait
from tests.upgrade.users import Answers, Front

AUDIT = """
import json
from collections import Counter
from apps.campaigns.models import Campaign
from apps.results.models import Measurement
from tests.faults.counts import audit
rows_of = []
for pk in {0!r}:
    campaign = Campaign.objects.get(pk=pk)
    runs = list(campaign.runs.all())
    rows = Counter(Measurement.objects.filter(run__in=runs).values_list("run", flat=True))
    # The audit compares series with the file of one agent, and those of a run on several hosts come from all of them.
    sealed = [run for run in runs if not run.parts.exists() and audit.lines_of(run)]
    found = audit.of_runs(sealed)
    rows_of.append({{
        "name": campaign.name, "state": campaign.state, "planned": len(runs), "sealed": len(sealed), "lost": found.lost,
        "outcomes": Counter(run.outcome for run in runs), "duplicated": found.duplicated,
        "overlapping": found.overlapping, "once": audit.measured_once(campaign.runs.all()),
        "rows": sorted(set(rows[run.pk] for run in runs)),
    }})
print(json.dumps(rows_of))
"""
# The last line of a traceback: the class of the error, and its message.
LAST = re.compile(r"^[A-Za-z_.]+(Error|Exception|Warning|Empty|DoesNotExist|Timeout)\b.*$")

# Errors of 0.2.0 that need no upgrade: it logs one when a host is deleted during its check.
KNOWN = {("before-worker.log", "apps.hosts.models.Host.DoesNotExist: Host matching query does not exist.")}


@dataclass(frozen=True)
class Times:
    migrate_s: float
    runs_after: int


def write(front: Front, waits: list[Wait], logs: Path, audited: list[dict[str, Any]], times: Times) -> list[str]:
    """Prints the table. Returns what failed."""
    lines = [
        f"migrate took {times.migrate_s:.1f} s; {times.runs_after} runs ended after the web server was replaced",
        "",
    ]
    failures = [] if times.runs_after else ["no run was left when the server had been replaced: use more --runs"]
    for phase, answers in front.answers.items():
        lines += _phase(phase, answers, front)
        failures += [f"{phase}: {what}, {count} times" for what, count in answers.failed.items()]
        failures += [f"{phase}: {what}, {count} times" for what, count in newly_refused(phase, front)]
    for log in sorted(logs.glob("*.log")):
        for what, count in errors(log).most_common():
            known = (log.name, what) in KNOWN
            lines.append(f"{log.name}: {what}, {count} times{', as without an upgrade' if known else ''}")
            failures += [] if known else [f"{log.name}: {what}"]
    lines += [f"waited {wait.seconds:.2f} s: {wait.waits} | for {wait.holds}" for wait in waits if wait.seconds >= 0.2]
    for row in audited:
        lines.append(", ".join(f"{name} {value}" for name, value in row.items()))
        failures += lost(row)
    sys.stdout.write("\n".join([*lines, "", f"{len(failures)} failures", *failures]) + "\n")
    return failures


def _phase(phase: str, answers: Answers, front: Front) -> list[str]:
    seconds, kind = answers.slowest
    head = (
        f"{phase}: {answers.seconds:.0f} s, {answers.count} requests of {len(answers.taken)} kinds, "
        f"{sum(answers.failed.values())} failed, {sum(answers.refused.values())} refused, "
        f"slowest {seconds:.2f} s ({kind})"
    )
    rows = [*answers.failed.most_common(), *answers.refused.most_common()]
    return [head, *(f"    {what}, {count} times: {front.examples.get(what, '')[:200]!r}" for what, count in rows)]


def newly_refused(phase: str, front: Front) -> list[tuple[str, int]]:
    """Writes that got a 4xx in this phase, though such writes got none before the upgrade."""
    before = front.answers["before"].refused
    refused = front.answers[phase].refused
    return [(what, count) for what, count in refused.items() if not what.startswith("GET ") and what not in before]


def errors(log: Path) -> Counter[str]:
    """Last lines of tracebacks, and errors of PostgreSQL, without keys."""
    text = log.read_text(errors="replace").splitlines()
    if log.name.startswith("postgres"):
        found = [line.partition("ERROR:")[2].strip() for line in text if "ERROR:" in line]
    else:
        found, inside = [], False
        for line in text:
            inside = inside or line.endswith("Traceback (most recent call last):")
            if inside and LAST.match(line):
                found.append(line)
                inside = False
    return Counter(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "*", line)[:200] for line in found)


def lost(row: dict[str, Any]) -> list[str]:
    """What is wrong with the runs of a campaign. Versions may read different figures, so rows per run can differ."""
    whole = row["outcomes"] == {"ok": row["planned"]} and row["once"] == row["planned"] and row["rows"][0] > 0
    clean = not (row["lost"] or row["duplicated"] or row["overlapping"]) and row["state"] == "finished"
    return [] if whole and clean else [f"campaign {row['name']}: {row}"]
