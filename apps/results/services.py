"""Import old results: upload as a draft, preview, and commit once as a campaign in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.wire.protocol import digest
from apps.accounts.models import Role, User
from apps.accounts.models.walls import everything, sees
from apps.accounts.services import audit, require, save
from apps.campaigns.design import steps
from apps.campaigns.library.workloads import imported_workload
from apps.campaigns.models import Artefact, Campaign, Run
from apps.hosts.models import Host
from apps.hosts.services import archive_host
from apps.request_values import whole
from apps.results.imports import files, mapping
from apps.results.imports.files import File
from apps.results.imports.reading import FIGURES
from apps.results.imports.understand import DraftRun, Note, Understood, first_error, understand
from apps.results.models import Import, ImportedFile, Measurement
from apps.tuning.models import Revision
from common.errors import PlanError

BATCH = 1000
MOST_NOTES = 1000


@transaction.atomic
def upload(uploads: Iterable[tuple[str, bytes]], *, by: User) -> tuple[Import, bool]:
    """Store uploads as a draft. Returns (the import, whether it is new): the same contents return the existing draft or
    its campaign.

    `uploads`: (name, content) of files and zips. PlanError names a file that is refused."""
    require(by, Role.OPERATOR, "import results")
    named_contents = list(uploads)
    gathered = files.gather(named_contents)
    title = (
        named_contents[0][0]
        if len(named_contents) == 1
        else f"{named_contents[0][0]} and {len(named_contents) - 1} more"
    )
    fields = {"title": title[:120], "created_by": by}
    import_row, new = Import.objects.get_or_create(digest=_digest(gathered, by), defaults=fields)
    if new:
        ImportedFile.objects.bulk_create(
            ImportedFile(
                of=import_row, path=file.path, size=len(file.content), sha256=file.sha256, content=file.content
            )
            for file in gathered
        )
        audit(
            by,
            "import.upload",
            import_row,
            after={"id": str(import_row.pk), "files": len(gathered), "digest": import_row.digest},
        )
    return import_row, new


@transaction.atomic
def store_mapping(import_row: Import, new_mapping: Mapping[str, Any], *, by: User) -> Import:
    """Store the mapping of a draft, in the form of imports/mapping.py."""
    require(by, Role.OPERATOR, "import results")
    mapping.check(new_mapping)
    _draft(import_row)
    import_row.mapping = dict(new_mapping)
    import_row.save(update_fields=["mapping"])
    return import_row


@transaction.atomic
def discard(import_row: Import, *, by: User) -> None:
    """Delete a draft."""
    require(by, Role.OPERATOR, "import results")
    _draft(import_row)
    audit(by, "import.discard", import_row, before={"id": str(import_row.pk), "digest": import_row.digest})
    import_row.delete()


def _digest(gathered: Sequence[File], by: User) -> str:
    """Return a digest of the contents. If the user may not see an import with the same contents, it is specific to
    the user."""
    contents = files.digest(gathered)
    with everything():
        known = Import.objects.filter(digest=contents).first()
    return digest([contents, by.pk]) if known and not sees(known) else contents


def _draft(import_row: Import) -> Import:
    """Return the locked row. PlanError if it is a campaign already."""
    locked = Import.objects.select_for_update(of=("self",)).get(pk=import_row.pk)
    if locked.campaign_id:
        hint = f"see the campaign {locked.campaign_id}"
        raise PlanError("import", f"{locked} was imported on {locked.created_at:%F}", hint=hint)
    return locked


def preview(import_row: Import) -> Understood:
    """Return what a commit of the draft would create. Writes nothing."""
    contents = [File(file.path, bytes(file.content or b"")) for file in import_row.files.all()]
    understood = understand(sorted(contents, key=lambda file: files.natural(file.path)), import_row.mapping)
    return replace(understood, notes=[*understood.notes, *_known(import_row)])


def _known(import_row: Import) -> Iterator[Note]:
    """Yield notes on files that are in a campaign already: counted twice, they would look like another measurement."""
    digests = import_row.files.filter(size__gt=0).values("sha256")
    others = ImportedFile.objects.filter(sha256__in=digests, of__campaign__isnull=False).exclude(of=import_row)
    same = dict(others.order_by("pk").values_list("sha256", "of__campaign__name"))
    for file in import_row.files.filter(sha256__in=same).defer("content"):
        yield Note(
            "warning", file.path, f"the same file is in the campaign {same[file.sha256]}", "remove it from this import"
        )


@transaction.atomic
def commit(import_row: Import, *, by: User) -> Campaign:
    """Commit an import as a campaign; a repeated commit returns the same one. PlanError names what is invalid or
    missing."""
    require(by, Role.OPERATOR, "import results")
    locked = Import.objects.select_for_update(of=("self",)).get(pk=import_row.pk)
    if locked.campaign is not None:
        return locked.campaign
    understood = preview(locked)
    if error := first_error(understood):
        raise error
    completed = mapping.complete(locked.mapping, understood.about)
    steps.metric(understood.steps, completed["metric"])
    campaign = _campaign(locked, understood, completed, by)
    _write_runs(campaign, understood.runs, {file.path: file.sha256 for file in locked.files.all()})
    _hand_over(locked, understood.runs)
    locked.campaign, locked.notes = campaign, [asdict(note) for note in understood.notes[:MOST_NOTES]]
    locked.save(update_fields=["campaign", "notes"])
    after = {
        "id": str(campaign.pk),
        "import": str(locked.pk),
        "runs": len(understood.runs),
        "left_out": len(understood.notes),
    }
    audit(by, "import.commit", campaign, after=after)
    import_row.refresh_from_db()
    return campaign


def _campaign(import_row: Import, understood: Understood, completed: Mapping[str, Any], by: User) -> Campaign:
    times = [time for run in understood.runs for time in _times(run) if time] or [timezone.now()]
    campaign = Campaign(
        kind=Campaign.Kind.IMPORTED,
        name=completed["name"],
        question=completed["question"],
        host=archive_host(completed["host"], by=by),
        profile=_profile(understood.profiles),
        workload=imported_workload(f"imported-{import_row.digest[:12]}", understood.steps, by),
        factors=understood.factors,
        repetitions=1 + max(run.block for run in understood.runs),
        order=Campaign.Order.AS_GIVEN,
        seed=0,
        metric=completed["metric"],
        delta=completed["delta"],
        sources=[],
        state=Campaign.State.FINISHED,
        created_by=by,
        started_at=min(times),
        ended_at=max(times),
    )
    save(campaign)
    return campaign


def _profile(names: Sequence[str]) -> Revision | None:
    """Return the revision that all files name, such as "oltp r2", if it exists."""
    if len(names) != 1:
        return None
    name, _, number = names[0].partition(" r")
    known = Revision.objects.filter(profile__name=name, **({} if whole(number) is None else {"number": whole(number)}))
    return known.order_by("-number").first()


def _times(run: DraftRun) -> tuple[Any, Any]:
    """Return (start, end) of a run, if its files or its manifest have the times."""
    entries = [step.entry for step in run.steps.values()]
    started = [entry.started for entry in entries if entry.started]
    ended = [entry.ended for entry in entries if entry.ended]
    return min(started, default=None), max(ended, default=None)


def _write_runs(campaign: Campaign, drafts: Sequence[DraftRun], digests: Mapping[str, str]) -> None:
    hosts: dict[str, Host] = {"": campaign.host}
    now = timezone.now()
    rows = []
    for position, run in enumerate(drafts):
        if run.host not in hosts:
            hosts[run.host] = archive_host(run.host, by=campaign.created_by)
        spec = _spec(run, digests)
        row = Run(campaign=campaign, host=hosts[run.host], position=position, block=run.block, cell=dict(run.cell))
        row.spec, row.digest, row.error = spec, digest(spec), dict(run.error) if run.error else None
        row.state, row.outcome, row.ingested_at = Run.State.ENDED, run.outcome, now
        row.started_at, row.ended_at = _times(run)
        rows.append(row)
    Run.objects.bulk_create(rows, batch_size=BATCH)
    pairs = list(zip(rows, drafts, strict=True))
    Artefact.objects.bulk_create(
        (artefact for row, run in pairs for artefact in _artefacts(row, run)), batch_size=BATCH
    )
    figures = (
        measurement for row, run in pairs if run.outcome == Run.Outcome.OK for measurement in _measurements(row, run)
    )
    Measurement.objects.bulk_create(figures, batch_size=BATCH)


def _spec(run: DraftRun, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return what is known of a run elsewhere, in the shape of agents/wire/protocol.py. No agent would accept it."""
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


def _artefacts(row: Run, run: DraftRun) -> list[Artefact]:
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


def _measurements(row: Run, run: DraftRun) -> list[Measurement]:
    return [
        Measurement(run=row, step=name, **asdict(figure)) for name, step in run.steps.items() for figure in step.figures
    ]


def _hand_over(import_row: Import, runs: Sequence[DraftRun]) -> None:
    """Delete the content of files that are now artefacts. Rows of a table share one file, which is not deleted."""
    paths = [
        path for run in runs for step in run.steps.values() if step.kind != FIGURES for path, _ in step.outputs.values()
    ]
    import_row.files.filter(path__in=paths).update(content=None)
