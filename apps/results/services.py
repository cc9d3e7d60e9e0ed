"""Importing old results: kept as a draft, looked at, and committed as a campaign in one transaction, once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.wire.protocol import digest
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.accounts.web.asked import whole
from apps.campaigns.design import steps
from apps.campaigns.library.workloads import imported_workload
from apps.campaigns.models import Artefact, Campaign, Run
from apps.hosts.models import Host
from apps.hosts.services import archive_host
from apps.results.imports import files, mapping
from apps.results.imports.files import File
from apps.results.imports.reading import FIGURES
from apps.results.imports.understand import FoundRun, Note, Understood, problem, understand
from apps.results.models import Import, ImportedFile, Measurement
from apps.tuning.models import Revision
from common.errors import PlanError

BATCH = 1000
KEPT_NOTES = 1000


@transaction.atomic
def upload(uploads: Iterable[tuple[str, bytes]], *, by: User) -> tuple[Import, bool]:
    """(the import, whether it is new): the same contents find the draft or the campaign that they became.

    `uploads`: (name, content) of files and zips. PlanError naming the file that cannot be taken.
    """
    require(by, Role.OPERATOR, "import results")
    given = list(uploads)
    found = files.gather(given)
    title = given[0][0] if len(given) == 1 else f"{given[0][0]} and {len(given) - 1} more"
    fields = {"title": title[:120], "created_by": by}
    kept, new = Import.objects.get_or_create(digest=files.digest(found), defaults=fields)
    if new:
        ImportedFile.objects.bulk_create(
            ImportedFile(of=kept, path=file.path, size=len(file.content), sha256=file.sha256, content=file.content)
            for file in found
        )
        audit(by, "import.upload", kept, after={"id": str(kept.pk), "files": len(found), "digest": kept.digest})
    return kept, new


@transaction.atomic
def say(kept: Import, said: Mapping[str, Any], *, by: User) -> Import:
    """Keep what a person says of a draft, in the shape of imports/mapping.py."""
    require(by, Role.OPERATOR, "import results")
    mapping.check(said)
    _draft(kept)
    kept.mapping = dict(said)
    kept.save(update_fields=["mapping"])
    return kept


@transaction.atomic
def discard(kept: Import, *, by: User) -> None:
    """Forget a draft."""
    require(by, Role.OPERATOR, "import results")
    _draft(kept)
    audit(by, "import.discard", kept, before={"id": str(kept.pk), "digest": kept.digest})
    kept.delete()


def _draft(kept: Import) -> Import:
    """The row, locked. PlanError when it is a campaign already."""
    locked = Import.objects.select_for_update(of=("self",)).get(pk=kept.pk)
    if locked.campaign_id:
        hint = f"see the campaign {locked.campaign_id}"
        raise PlanError("import", f"{locked} was imported on {locked.created_at:%F}", hint=hint)
    return locked


def preview(kept: Import) -> Understood:
    """What committing would make of a draft; nothing is written."""
    found = [File(file.path, bytes(file.content or b"")) for file in kept.files.all()]
    told = understand(sorted(found, key=lambda file: files.natural(file.path)), kept.mapping)
    return replace(told, notes=[*told.notes, *_known(kept)])


def _known(kept: Import) -> Iterator[Note]:
    """Files that are in a campaign already: counted twice, they would look like another measurement."""
    digests = kept.files.filter(size__gt=0).values("sha256")
    others = ImportedFile.objects.filter(sha256__in=digests, of__campaign__isnull=False).exclude(of=kept)
    same = dict(others.order_by("pk").values_list("sha256", "of__campaign__name"))
    for file in kept.files.filter(sha256__in=same).defer("content"):
        yield Note(
            "warning", file.path, f"the same file is in the campaign {same[file.sha256]}", "remove it from this import"
        )


@transaction.atomic
def commit(kept: Import, *, by: User) -> Campaign:
    """The campaign of an import; committing again gives the same one. PlanError naming what is wrong or missing."""
    require(by, Role.OPERATOR, "import results")
    locked = Import.objects.select_for_update(of=("self",)).get(pk=kept.pk)
    if locked.campaign is not None:
        return locked.campaign
    found = preview(locked)
    if error := problem(found):
        raise error
    told = mapping.complete(locked.mapping, found.about)
    steps.metric(found.steps, told["metric"])
    campaign = _campaign(locked, found, told, by)
    _write_runs(campaign, found.runs, {file.path: file.sha256 for file in locked.files.all()})
    _hand_over(locked, found.runs)
    locked.campaign, locked.notes = campaign, [asdict(note) for note in found.notes[:KEPT_NOTES]]
    locked.save(update_fields=["campaign", "notes"])
    after = {"id": str(campaign.pk), "import": str(locked.pk), "runs": len(found.runs), "left_out": len(found.notes)}
    audit(by, "import.commit", campaign, after=after)
    kept.refresh_from_db()
    return campaign


def _campaign(kept: Import, found: Understood, told: Mapping[str, Any], by: User) -> Campaign:
    times = [time for run in found.runs for time in _times(run) if time] or [timezone.now()]
    campaign = Campaign(
        kind=Campaign.Kind.IMPORTED,
        name=told["name"],
        question=told["question"],
        host=archive_host(told["host"], by=by),
        profile=_profile(found.profiles),
        workload=imported_workload(f"imported-{kept.digest[:12]}", found.steps, by),
        factors=found.factors,
        repetitions=1 + max(run.block for run in found.runs),
        order=Campaign.Order.AS_GIVEN,
        seed=0,
        metric=told["metric"],
        delta=told["delta"],
        sources=[],
        state=Campaign.State.FINISHED,
        created_by=by,
        started_at=min(times),
        ended_at=max(times),
    )
    save(campaign)
    return campaign


def _profile(names: Sequence[str]) -> Revision | None:
    """The revision that all files name, such as "oltp r2", where there is one of that name here."""
    if len(names) != 1:
        return None
    name, _, number = names[0].partition(" r")
    known = Revision.objects.filter(profile__name=name, **({} if whole(number) is None else {"number": whole(number)}))
    return known.order_by("-number").first()


def _times(run: FoundRun) -> tuple[Any, Any]:
    """(when it began, when it ended), as far as its files or its manifest tell."""
    entries = [step.entry for step in run.steps.values()]
    started = [entry.started for entry in entries if entry.started]
    ended = [entry.ended for entry in entries if entry.ended]
    return min(started, default=None), max(ended, default=None)


def _write_runs(campaign: Campaign, found: Sequence[FoundRun], digests: Mapping[str, str]) -> None:
    hosts: dict[str, Host] = {"": campaign.host}
    now = timezone.now()
    rows = []
    for position, run in enumerate(found):
        if run.host not in hosts:
            hosts[run.host] = archive_host(run.host, by=campaign.created_by)
        spec = _spec(run, digests)
        row = Run(campaign=campaign, host=hosts[run.host], position=position, block=run.block, cell=dict(run.cell))
        row.spec, row.digest, row.error = spec, digest(spec), dict(run.error) if run.error else None
        row.state, row.outcome, row.ingested_at = Run.State.ENDED, run.outcome, now
        row.started_at, row.ended_at = _times(run)
        rows.append(row)
    Run.objects.bulk_create(rows, batch_size=BATCH)
    pairs = list(zip(rows, found, strict=True))
    Artefact.objects.bulk_create((each for row, run in pairs for each in _artefacts(row, run)), batch_size=BATCH)
    figures = (each for row, run in pairs if run.outcome == Run.Outcome.OK for each in _measurements(row, run))
    Measurement.objects.bulk_create(figures, batch_size=BATCH)


def _spec(run: FoundRun, digests: Mapping[str, str]) -> dict[str, Any]:
    """In the shape of agents/wire/protocol.py, but no agent would take it: what is known of a run elsewhere."""
    listed = [
        {"name": name, "role": "measure", "kind": step.kind, "options": dict(step.options)}
        for name, step in run.steps.items()
    ]
    source = {
        f"out/{name}/{output}": {"from": path, "sha256": digests.get(path.partition(", line ")[0], "")}
        for name, step in run.steps.items()
        for output, (path, _) in step.outputs.items()
    }
    collect = {"interval_s": 1.0, "sources": []}
    return {"version": 1, "target": {}, "settings": {}, "steps": listed, "collect": collect, "imported": source}


def _artefacts(row: Run, run: FoundRun) -> list[Artefact]:
    return [
        Artefact(
            run=row,
            path=f"out/{name}/{output}",
            size=len(content),
            sha256=File(path, content).sha256,
            content=content,
        )
        for name, step in run.steps.items()
        for output, (path, content) in step.outputs.items()
    ]


def _measurements(row: Run, run: FoundRun) -> list[Measurement]:
    return [
        Measurement(run=row, step=name, **asdict(figure)) for name, step in run.steps.items() for figure in step.figures
    ]


def _hand_over(kept: Import, runs: Sequence[FoundRun]) -> None:
    """What is an artefact from now on need not be stored twice; rows of a table come from one file and keep it."""
    paths = [
        path for run in runs for step in run.steps.values() if step.kind != FIGURES for path, _ in step.outputs.values()
    ]
    kept.files.filter(path__in=paths).update(content=None)
