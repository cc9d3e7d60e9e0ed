"""Update the copies of data sets on hosts from the events of runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Q

from agents.datasets import ABSENT
from agents.wire.protocol import digest
from apps.campaigns.models import DataCopy, DataSet, DataUse, Run, RunPart

DatasetEvent = dict[str, Any]
Row = TypeVar("Row", DataCopy, DataUse)
KEYS = {DataCopy: ["host", "home", "fingerprint"], DataUse: ["run"]}


def learn(run: Run, events: list[DatasetEvent], part: RunPart | None = None) -> None:
    """Apply the events of kind dataset of the run, or of a part, in order. Applying them again changes nothing.

    The last event of a copy is complete."""
    for data in {(data["home"], data["fingerprint"]): data for data in events}.values():
        copy = _copy(run, part or run, data) if data["home"] else None
        if data["used"]:
            identity = {name: data[name] for name in ("name", "fingerprint")} | {"definition": _definition(data)}
            _upsert(DataUse(run=run), {"copy": copy, **identity, **data["used"]})


def _upsert(row: Row, fields: dict[str, Any]) -> Row:
    """Insert the row with these fields, or update the row that has its unique key: one statement, no savepoint."""
    for name, value in fields.items():
        setattr(row, name, value)
    kept = type(row).objects.bulk_create(
        [row], update_conflicts=True, unique_fields=KEYS[type(row)], update_fields=list(fields)
    )
    return kept[0]


def _definition(data: DatasetEvent) -> str:
    """A digest that runs share if they asked for the same data. They got other data if a dump had been replaced."""
    return digest({name: data[name] for name in ("kind", "options", "major")})


def _copy(run: Run, job: Run | RunPart, data: DatasetEvent) -> DataCopy | None:
    """Store the present state of the copy; None if it was removed."""
    place = {"host": job.host, "home": data["home"], "fingerprint": data["fingerprint"]}
    if data["state"] == ABSENT:
        DataCopy.objects.filter(**place).delete()
        return None
    initdb = job.spec["settings"].get("initdb", {})
    known = DataCopy.objects.filter(**place).select_related("dataset").first()
    fields = {
        "recipe": {"kind": data["kind"], "options": data["options"]},
        **{name: data[name] for name in ("major", "database", "state", "relations")},
        "size": data["size"] or 0,
        "seconds": data["seconds"] or [],
        "made_by_id": known.made_by_id if known and str(known.made_by_id) == data["made_by"] else _maker(data),
        "made_at": datetime.fromtimestamp(data["made_at"], UTC) if data["made_at"] else None,
        "target": job.spec["target"],
        "initdb": initdb,
        "used_at": run.started_at,
    }
    dataset = run.campaign.dataset or (known and known.dataset) or _dataset(data)
    if dataset and (dataset.kind, dataset.options) == (data["kind"], data["options"]):
        fields["dataset"] = dataset
    return _upsert(DataCopy(**place), fields)


def _maker(data: DatasetEvent) -> UUID | None:
    """The run that created the copy, itself or by a part; None if it was deleted."""
    made = Run.objects.filter(Q(pk=data["made_by"]) | Q(parts=data["made_by"])).order_by()
    return made.values_list("pk", flat=True).first()


def _dataset(data: DatasetEvent) -> DataSet | None:
    """Return the newest data set that is identical."""
    return DataSet.objects.filter(kind=data["kind"], options=data["options"]).order_by("-pk").first()
