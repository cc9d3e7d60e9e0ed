"""Counts lost and duplicate events, overlapping runs and settings that are left changed.

The reference are the records that the agent sealed: events.ndjson, with a number and a checksum in every line. Overlaps
are computed from the host's monotonic clock within one boot, which cannot be set.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from itertools import combinations
from typing import Any

from django.db.models import Count, Q, QuerySet

from agents.records.spool import Job, read_log
from agents.wire.protocol import checksum
from apps.campaigns.models import Campaign, Run
from apps.results.models import Measurement
from tests.faults.counts.findings import Found

Line = dict[str, Any]
EVENTS = "events.ndjson"


def of_campaign(*campaigns: Campaign) -> Found:
    """Every run of these campaigns; all have ended and their results were read."""
    return of_runs(Run.objects.filter(campaign__in=campaigns))


def of_runs(runs: Iterable[Run]) -> Found:
    """What the server has of runs that ended, against what their agents sealed."""
    every = [(run, lines_of(run)) for run in runs]
    total = sum((_stored(run, lines) for run, lines in every), Found())
    return total + Found(overlapping=overlapping([lines for _, lines in every]))


def of_jobs(jobs: Iterable[Job]) -> Found:
    """What the spool of a host has of runs that are sealed: their numbers without gap, up to the manifest's last."""
    every = [(job, read_log(job.path / EVENTS)[0]) for job in jobs]
    total = sum((_numbered(lines, int((job.manifest or {})["last_seq"])) for job, lines in every), Found())
    return total + Found(overlapping=overlapping([lines for _, lines in every]))


def lines_of(run: Run) -> list[Line]:
    """The events of a run as its agent sealed them; none of a run that never reached its host."""
    file = run.artefacts.filter(path=EVENTS).first()
    lines = [json.loads(line) for line in bytes(file.content or b"").splitlines()] if file else []
    assert all(line["crc"] == checksum(line) for line in lines), f"{run}: a damaged line was sealed"
    return lines


def _numbered(lines: list[Line], last_seq: int) -> Found:
    seqs = Counter(line["seq"] for line in lines)
    return Found(runs=1, lost=len(set(range(1, last_seq + 1)) - seqs.keys()), duplicated=seqs.total() - len(seqs))


def _stored(run: Run, lines: list[Line]) -> Found:
    """Samples are columns by now, counted by step and source; everything else is there by its number, word for word."""
    sealed = _numbered(lines, run.manifest["last_seq"]) if run.manifest else Found(runs=1)
    expected = Counter({line["seq"]: 1 for line in lines if line["kind"] != "sample"})
    same = {line["seq"] for line in lines}
    rows = list(run.events.exclude(kind="sample").values_list("seq", "kind", "data"))
    ours = Counter(seq for seq, _, _ in rows)
    content = {line["seq"]: (line["kind"], line["data"]) for line in lines}
    altered = sum(content[seq] != (kind, data) for seq, kind, data in rows if seq in same)
    samples = Counter((line["data"]["step"], line["data"]["source"]) for line in lines if line["kind"] == "sample")
    folded = Counter({(one.step, one.source): one.samples for one in run.series.all()})
    for data in run.events.filter(kind="sample").values_list("data", flat=True):
        folded[data["step"], data["source"]] += 1
    missing, surplus = (expected - ours) + (samples - folded), (ours - expected) + (folded - samples)
    return sealed + Found(lost=missing.total() + altered, duplicated=surplus.total())


def overlapping(runs: Iterable[list[Line]]) -> int:
    """Pairs of runs of one host that were at work at the same time, from the first event to the outcome."""
    return sum(_overlap(one, other) for one, other in combinations([_spans(lines) for lines in runs], 2))


def _spans(lines: list[Line]) -> dict[str, tuple[float, float]]:
    """boot -> (first, last) moment of its monotonic clock."""
    spans: dict[str, tuple[float, float]] = {}
    for line in lines:
        began, _ = spans.get(line["boot_id"], (line["mono"], 0.0))
        spans[line["boot_id"]] = (began, line["mono"])
    return spans


def _overlap(one: dict[str, tuple[float, float]], other: dict[str, tuple[float, float]]) -> bool:
    return any(one[boot][0] < other[boot][1] and other[boot][0] < one[boot][1] for boot in one.keys() & other.keys())


def measured_once(runs: QuerySet[Run]) -> int:
    """Cells that one run measured: ended well, was begun once on its host, has each of its figures once."""
    begun = Q(events__kind="state", events__data__state="APPLYING")
    whole = runs.filter(outcome=Run.Outcome.OK).annotate(begun=Count("events", filter=begun)).filter(begun=1)
    figures = Measurement.objects.filter(run__in=list(whole)).values_list("run", "step", "name")
    assert len(figures) == len(set(figures))
    measured = {run for run, _, _ in figures}
    return len({(str(run.cell), run.block) for run in whole if run.pk in measured})


def main(*campaigns: str) -> None:
    """Print {"found": Found, "outcomes": {outcome: runs}, "cells": measured once} of these campaigns as JSON."""
    runs = Run.objects.filter(campaign__in=campaigns).order_by("started_at")
    outcomes = Counter(runs.values_list("outcome", flat=True))
    report = {"found": asdict(of_runs(runs)), "outcomes": outcomes, "cells": measured_once(runs)}
    sys.stdout.write(json.dumps(report) + "\n")
