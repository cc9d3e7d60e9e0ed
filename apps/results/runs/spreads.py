"""fio's latency distributions: of a run by section, or of a section by level. Only reads (SELECT)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from apps.campaigns.models import Artefact, Campaign, Run
from apps.results.models import Measurement
from apps.results.queries import labels_of
from common.errors import ProvingError
from readers.histogram import FINEST, Histogram
from readers.measure import fio

MARKS = (50.0, 99.0, 99.9)
MOST_PARTS = 160  # parts of one outline: about as many as can be distinguished
MOST_LEVELS, MOST_RUNS = 12, 10
REPORT = "fio.json"
HEAD = ("from (ms)", "to (ms)", "I/Os", "share (%)")
PER_MS = 1e6  # ns

_SECTION = re.compile(r" ?(read|write|trim|mixed) clat_mean$")

Part = tuple[float, float, float]  # from and to in ms, and the share of all; to is inf in fio's last bucket


@dataclass(frozen=True)
class Spread:
    """Completion latencies of `count` I/Os in one direction, or of all together if `way` is "", as in old reports.

    `marks`: percentile -> ms. `histogram` is None if only fio's coarse buckets are known."""

    row: str
    way: str
    count: int
    parts: list[Part]
    marks: dict[float, float]
    histogram: Histogram | None = None


@dataclass(frozen=True)
class Spreads:
    """Rows of a chart. `note`: what they leave out."""

    entries: list[Spread]
    note: str = ""

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(entry.row for entry in self.entries))


def of_run(run: Run, step: str) -> Spreads:
    """Return a row for each section of a fio step."""
    file = run.artefacts.filter(path=f"out/{step}/{REPORT}").exclude(content=None).first()
    sections = _read(file) if file else []
    return Spreads([one for section in sections for one in _of(section.section or step, [section])])


def of_levels(campaign: Campaign, step: str, section: str, host: int | None = None) -> Spreads:
    """Return a row for each level: all I/Os of its first MOST_RUNS ok runs together."""
    runs = campaign.runs.filter(outcome=Run.Outcome.OK, **({"host": host} if host else {})).order_by("position")
    of: dict[str, list[Any]] = {}
    for run in runs.only("pk", "campaign", "cell", "position"):
        run.campaign = campaign
        of.setdefault(run.label, []).append(run)
    # The design has levels without runs so far.
    labels = [label for label in labels_of(campaign, [runs[0] for runs in of.values()]) if label in of]
    label_of_run = {run.pk: label for label in labels[:MOST_LEVELS] for run in of[label][:MOST_RUNS]}
    by_label: dict[str, list[fio.Latencies]] = {}
    files = Artefact.objects.filter(run__in=list(label_of_run), path=f"out/{step}/{REPORT}").exclude(content=None)
    for file in files.order_by("run__position").iterator(chunk_size=20):
        by_label.setdefault(label_of_run[file.run_id], []).extend(one for one in _read(file) if one.section == section)
    entries = [one for label in labels if label in by_label for one in _of(label, by_label[label])]
    return Spreads(entries, _note(labels, of))


def _note(labels: Sequence[str], of: dict[str, list[Any]]) -> str:
    notes = [f"the first {MOST_LEVELS} of {len(labels)} levels"] if len(labels) > MOST_LEVELS else []
    if any(len(runs) > MOST_RUNS for runs in of.values()):
        notes.append(f"the first {MOST_RUNS} runs of each level")
    return ", ".join(notes)


def sections_of(campaign: Campaign) -> dict[str, tuple[str, str]]:
    """Return value for a URL -> (step, section) from fio's report of the campaign's first ok run; a single section has
    no name.

    No query if no step is fio."""
    names = [step["name"] for step in campaign.steps if step.get("kind") == "fio"]
    first = campaign.runs.filter(outcome=Run.Outcome.OK).order_by("position").values("pk")[:1]
    if not names:
        return {}
    files = Artefact.objects.filter(run__in=first, path__in=[f"out/{name}/{REPORT}" for name in names])
    measurements = Measurement.objects.filter(run__in=first, step__in=names, name__endswith="clat_mean").order_by("pk")
    known = {path.split("/")[1] for path in files.exclude(content=None).values_list("path", flat=True)}
    sections = [
        (step, _SECTION.sub("", name)) for step, name in measurements.values_list("step", "name") if step in known
    ]
    return {"/".join(section): section for section in sections}


def section_name(section: tuple[str, str]) -> str:
    return " ".join(filter(None, section))


def _read(file: Artefact) -> list[fio.Latencies]:
    """Return the latencies of a file. One that cannot be parsed has none: the measurements of its run give the
    reason."""
    try:
        return fio.latencies(bytes(file.content or b""))
    except ProvingError:
        return []


def _of(row: str, reports: Sequence[fio.Latencies]) -> Iterator[Spread]:
    """Yield the distributions of one report, or of several: from histograms if all have them, else from fio's
    buckets."""
    ways = [one for section in reports for one in section.ways]
    if not all(one.histogram for one in ways):
        yield from _coarse(row, reports)
        return
    for way in dict.fromkeys(one.way for one in ways):
        together = Histogram.merged([one.histogram for one in ways if one.way == way and one.histogram])
        marks = {at: together.percentile(at) / PER_MS for at in MARKS if _known(at, together.count)}
        yield Spread(row, way, together.count, _parts(together), marks, together)


def _known(percent: float, count: int) -> bool:
    """Return whether more than one I/O lies beyond it, as for the curves."""
    return count * (100 - percent) > 100


def _parts(histogram: Histogram) -> list[Part]:
    """Return parts as fine as fio's bins, or fewer parts of whole bins if there are too many."""
    per = FINEST
    while per > 1 and len(histogram.stretches(per)) > MOST_PARTS:
        per //= 2
    return [(low / PER_MS, high / PER_MS, count / histogram.count) for low, high, count in histogram.stretches(per)]


def _coarse(row: str, reports: Sequence[fio.Latencies]) -> Iterator[Spread]:
    """Yield the distribution of JSON without bins: one outline of all directions, and the percentiles that fio
    printed if there is one report of each."""
    buckets = [clone for section in reports for clone in section.buckets]
    total = sum(ios for ios, _ in buckets)
    shares: dict[tuple[float, float], float] = {}
    for ios, each in buckets:
        for bucket in each:
            place = bucket.low_ns, bucket.high_ns
            shares[place] = shares.get(place, 0.0) + bucket.percent / 100 * ios / total
    if shares:
        yield Spread(
            row, "", total, [(low / PER_MS, high / PER_MS, share) for (low, high), share in sorted(shares.items())], {}
        )
    for way in [one for section in reports for one in section.ways] if len(reports) == 1 else []:
        known = {
            at: way.percentiles_ns[at] / PER_MS for at in MARKS if at in way.percentiles_ns and _known(at, way.count)
        }
        if known:
            yield Spread(row, way.way, way.count, [], known)


def lines_of(spreads: Spreads) -> Iterator[list[Any]]:
    """Yield lines for a CSV with the full resolution: row, direction, from, to, count, share."""
    for entry in spreads.entries:
        if entry.histogram:
            for low, high, count in entry.histogram.stretches():
                if count:
                    yield [entry.row, entry.way, low / PER_MS, high / PER_MS, count, 100 * count / entry.count]
        else:
            for begin, end, share in entry.parts:
                yield [entry.row, entry.way or "all", begin, "" if math.isinf(end) else end, "", 100 * share]
