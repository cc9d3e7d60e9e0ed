"""Export a campaign as tables, as a document, or as its raw outputs. Large exports are streamed. Only reads
(SELECT)."""

from __future__ import annotations

import csv
import io
import itertools
import json
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import yaml
from django.db.models import Prefetch, QuerySet

from apps.campaigns.design.steps import measured
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent, RunPart
from apps.results.answers import cache_split
from apps.results.imports.reading import FIGURES, OUTPUTS
from apps.results.models import Measurement, Series
from apps.results.store import samples
from readers.others.huge_page_csv import COLUMNS
from readers.table import disarmed

CSV = "text/csv; charset=utf-8"
CHUNK = 500
TABLE = "figures.csv"
SERIES_HEAD = ("run", "position", "step", "source", "t_s", "column", "value")
BEFORE = ("run", "position", "block")
AFTER = ("state", "outcome", "started_at", "ended_at", "digest", "error")


@dataclass(frozen=True)
class FigureColumn:
    """A column in a table of runs: a figure of a step, with its unit."""

    step: str
    name: str
    unit: str

    @property
    def header(self) -> str:
        return f"{self.step}.{self.name} ({self.unit})" if self.unit else f"{self.step}.{self.name}"


def campaigns() -> QuerySet[Campaign]:
    """Return campaigns with the objects that an export names."""
    return Campaign.objects.select_related("host", "workload", "profile__profile", "created_by")


def figures_of(campaign: Campaign) -> list[FigureColumn]:
    """Return every figure of any run, by step and name."""
    rows = Measurement.objects.filter(run__campaign=campaign).order_by("step", "name", "unit")
    return [FigureColumn(*row) for row in rows.values_list("step", "name", "unit").distinct()]


def runs_of(campaign: Campaign, *related: Any) -> Iterator[Run]:
    """Yield the runs in order, a few hundred at a time, each with its measurements."""
    runs = campaign.runs.order_by("position").prefetch_related("measurements", *related)
    return runs.iterator(chunk_size=CHUNK)


def runs_table(campaign: Campaign, figures: list[FigureColumn]) -> tuple[list[str], Iterator[list[Any]]]:
    """Return a heading, and every run with its levels and these of its figures, including failed ones."""
    factors = [factor["name"] for factor in campaign.factors]
    head = [*BEFORE, *factors, *AFTER, *(figure.header for figure in figures)]
    return head, (table_row(run, factors, figures) for run in runs_of(campaign))


def table_row(run: Run, factors: list[str], figures: list[FigureColumn]) -> list[Any]:
    values = {
        FigureColumn(measurement.step, measurement.name, measurement.unit): measurement.value
        for measurement in run.measurements.all()
    }
    times = [moment.isoformat() if moment else "" for moment in (run.started_at, run.ended_at)]
    error = (run.error or {}).get("message", "")
    start = [str(run.pk), run.position + 1, run.block + 1, *(run.cell.get(name, "") for name in factors)]
    rest = [values.get(figure, "") for figure in figures]
    return [*start, run.state, run.outcome, *times, run.digest, error, *rest]


def csv_lines(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """Yield lines of CSV. A text that a spreadsheet would read as a formula gets an apostrophe."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for row in itertools.chain([head], rows):
        writer.writerow([disarmed(cell) for cell in row])
        if buffer.tell() > 1 << 16:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def runs_csv(campaign: Campaign) -> Iterator[str]:
    return csv_lines(*runs_table(campaign, figures_of(campaign)))


def cache_split_csv(campaign: Campaign) -> Iterator[str]:
    return csv_lines(COLUMNS, cache_split.rows(runs_of(campaign)))


def series_csv(campaign: Campaign) -> Iterator[str]:
    """Yield every sample of every run, one per line. `t_s` counts from the start of its step."""
    return csv_lines(SERIES_HEAD, series_rows(Series.objects.filter(run__campaign=campaign)))


def run_series_csv(run: Run) -> Iterator[str]:
    return csv_lines(SERIES_HEAD, series_rows(run.series.all()))


def series_rows(stored: Any) -> Iterator[tuple[Any, ...]]:
    for one in stored.select_related("run").order_by("run__position", "step", "source").iterator(chunk_size=CHUNK):
        table = samples.values_of(one, None, None)
        key_columns = (str(one.run_id), one.run.position + 1, one.step, one.source)
        for name in one.columns[1:]:
            pairs = zip(table["t"].tolist(), table[name].tolist(), strict=True)
            yield from ((*key_columns, t, name, value) for t, value in pairs if value == value)


def document(campaign: Campaign, with_series: bool = False) -> Iterator[str]:
    """Yield one JSON object: the design of the campaign, and each run with spec, proofs, measurements, other hosts'
    jobs, and series if requested."""
    header = {"format": "proving-ground campaign", "version": 1, "campaign": _design(campaign)}
    yield json.dumps(header, ensure_ascii=False)[:-1] + ', "runs": ['
    parts = RunPart.objects.select_related("host").prefetch_related(*_job_prefetches())
    related: list[Any] = [*_job_prefetches(), Prefetch("parts", parts)]
    for place, run in enumerate(runs_of(campaign, *related, *(["series"] if with_series else []))):
        yield (",\n" if place else "\n") + json.dumps(_whole(run, with_series), ensure_ascii=False, allow_nan=False)
    yield "\n]}\n"


def _job_prefetches() -> list[Prefetch[Any]]:
    """Return the prefetches for _job: settings and proofs as `proof_events`, and files without their contents as
    `files`."""
    proofs = RunEvent.objects.filter(kind__in=("proof", "write")).order_by("seq")
    files = Artefact.objects.defer("content").order_by("path")
    return [Prefetch("events", proofs, "proof_events"), Prefetch("artefacts", files, "files")]


def _design(campaign: Campaign) -> dict[str, Any]:
    names = ("kind", "name", "question", "recipe", "target", "factors", "repetitions", "order", "seed", "reboot")
    more = ("metric", "delta", "interval_s", "sources", "stop", "extensions", "state", "state_reason")
    profile = campaign.profile
    workload = campaign.workload
    times = {name: _iso(getattr(campaign, name)) for name in ("created_at", "started_at", "ended_at")}
    return {
        "id": str(campaign.pk),
        **{name: getattr(campaign, name) for name in (*names, *more)},
        **times,
        "host": campaign.host.name,
        "profile": {"name": str(profile), "settings": profile.settings} if profile else None,
        "workload": {"name": str(workload), "steps": workload.steps} if workload else None,
        "created_by": campaign.created_by.username,
    }


def _iso(moment: Any) -> str | None:
    return moment.isoformat() if moment else None


def _whole(run: Run, with_series: bool) -> dict[str, Any]:
    measured = ("step", "name", "unit", "better", "definition")
    figures = [
        {**{name: getattr(measurement, name) for name in measured}, "value": _finite(measurement.value)}
        for measurement in run.measurements.all()
    ]
    whole = {"id": str(run.pk), **{name: getattr(run, name) for name in ("position", "block", "cell", "proof")}}
    whole |= _job(run)
    whole["retry_of"] = str(run.retry_of_id) if run.retry_of_id else None
    whole |= {"started_at": _iso(run.started_at), "ended_at": _iso(run.ended_at), "measurements": figures}
    whole["parts"] = [_part(part) for part in run.parts.all()]
    return whole | ({"series": [_series(one) for one in run.series.all()]} if with_series else {})


def _part(part: RunPart) -> dict[str, Any]:
    return {"id": str(part.pk), "name": part.name, "role": part.role, "host": part.host.name, **_job(part)}


def _job(job: Run | RunPart) -> dict[str, Any]:
    """Return the spec of a job, its proofs, and its files."""
    names = ("digest", "spec", "state", "outcome", "error", "manifest")
    files = getattr(job, "files")  # noqa: B009 - set by the prefetch
    artefacts = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in files]
    events: dict[str, list[Any]] = {"proof": [], "write": []}
    for event in getattr(job, "proof_events"):  # noqa: B009 - set by the prefetch
        events[event.kind].append(event.data)
    return {name: getattr(job, name) for name in names} | {
        "artefacts": artefacts,
        "proofs": events["proof"],
        "writes": events["write"],
    }


def _finite(value: float) -> float | None:
    """Return None for infinity and nan, which JSON does not have."""
    return value if abs(value) < float("inf") else None


def _series(one: Series) -> dict[str, Any]:
    values = {
        name: [_finite(v) for v in column.tolist()] for name, column in samples.values_of(one, None, None).items()
    }
    return {"step": one.step, "source": one.source, "values": values}


def outputs_zip(campaign: Campaign) -> IO[bytes]:
    """Return the outputs of the tools with a manifest; importing it creates the same campaign again.

    Figures that were imported as a table are a table. A run without outputs is only in the manifest."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever sends it closes it
    kinds = {step["name"]: step["kind"] for step in campaign.steps}
    tabular = [name for name, kind in kinds.items() if kind == FIGURES]
    about: dict[str, Any] = {name: getattr(campaign, name) for name in ("name", "question", "metric", "delta")}
    about["order"] = {factor["name"]: [level["label"] for level in factor["levels"]] for factor in campaign.factors}
    listed: list[dict[str, Any]] = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        if tabular:
            figures = [figure for figure in figures_of(campaign) if figure.step in tabular]
            _put(archive, TABLE, "".join(csv_lines(*runs_table(campaign, figures))))
            listed.append({"file": TABLE})
            about["columns"] = {figure.header: _use(campaign, figure) for figure in figures}
        if len(tabular) < len(kinds):
            for run in campaign.runs.order_by("position").select_related("host").iterator(chunk_size=CHUNK):
                listed += _packed(archive, run)
        manifest = {**about, "host": campaign.host.name, "files": listed}
        _put(archive, "manifest.yaml", yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=1000))
    file.seek(0)
    return file


def _use(campaign: Campaign, figure: FigureColumn) -> dict[str, str]:
    declared = next(step for step in campaign.steps if step["name"] == figure.step)["metrics"].get(figure.name, {})
    named = {"step": figure.step, "name": figure.name, "unit": figure.unit}
    return {"as": "figure", **named, "better": declared.get("better", "")}


def _put(archive: zipfile.ZipFile, name: str, data: str | bytes) -> None:
    """Write a file with a fixed time, so that the same campaign always gives the same bytes."""
    about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
    archive.writestr(about, data)


def _packed(archive: zipfile.ZipFile, run: Run) -> Iterator[dict[str, Any]]:
    """Write the outputs of a run's measured steps, and yield the manifest's entry of each."""
    times = {name: _iso(moment) for name, moment in (("started", run.started_at), ("time", run.ended_at)) if moment}
    entry = {"block": run.block + 1, "host": run.host.name, **times}
    if run.outcome != Run.Outcome.OK:
        entry |= {"outcome": run.outcome or run.state, "error": (run.error or {}).get("message", "")}
    for step in measured(run.spec["steps"]):
        if step["kind"] != FIGURES:
            yield {
                **_outputs(archive, run, step),
                "kind": step["kind"],
                "step": step["name"],
                **entry,
                "levels": dict(run.cell),
            }


def _outputs(archive: zipfile.ZipFile, run: Run, step: Mapping[str, Any]) -> dict[str, str]:
    """Write the outputs of a step, and return their paths in the zip for the manifest."""
    prefix = f"out/{step['name']}/"
    artefacts = {
        artefact.path.removeprefix(prefix): artefact for artefact in run.artefacts.filter(path__startswith=prefix)
    }
    results = [name for kind, name in OUTPUTS.values() if kind == step["kind"] and name != "stderr"]
    names = {"file": next((name for name in results if name in artefacts), ""), "stderr": "stderr"}
    paths = {}
    for word, name in names.items():
        if name in artefacts and artefacts[name].content is not None:
            paths[word] = f"{run.position + 1:05}/{step['name']}/{name}"
            _put(archive, paths[word], bytes(artefacts[name].content or b""))
    return paths
