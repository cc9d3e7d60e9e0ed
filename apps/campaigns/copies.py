"""Where data sets live and in what state: what the events of runs tell of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from agents.datasets import ABSENT
from apps.campaigns.models import DataCopy, DataSet, DataUse, Run, RunPart

Told = dict[str, Any]


def learn(run: Run, told: list[Told], part: RunPart | None = None) -> None:
    """Take in events of kind dataset, in their order, of the run or of a part; the same again changes nothing."""
    for data in told:
        copy = _copy(run, part or run, data) if data["home"] else None
        if data["used"]:
            DataUse.objects.update_or_create(run=run, defaults={"copy": copy, "name": data["name"], **data["used"]})


def _copy(run: Run, job: Run | RunPart, data: Told) -> DataCopy | None:
    """The copy as it is now; None where it is no more."""
    place = {"host": job.host, "home": data["home"], "fingerprint": data["fingerprint"]}
    if data["state"] == ABSENT:
        DataCopy.objects.filter(**place).delete()
        return None
    initdb = job.spec["settings"].get("initdb", {})
    found = {
        "recipe": {"kind": data["kind"], "options": data["options"]},
        **{name: data[name] for name in ("major", "database", "state", "relations")},
        "size": data["size"] or 0,
        "seconds": data["seconds"] or [],
        "made_by": Run.objects.filter(Q(pk=data["made_by"]) | Q(parts=data["made_by"])).first(),
        "made_at": datetime.fromtimestamp(data["made_at"], UTC) if data["made_at"] else None,
        "target": job.spec["target"],
        "initdb": initdb,
        "used_at": run.started_at,
    }
    known = DataCopy.objects.filter(**place).first()
    dataset = DataSet.objects.filter(kind=data["kind"], options=data["options"]).order_by("-pk").first()
    dataset = run.campaign.dataset or (known.dataset if known else None) or dataset
    if dataset and (dataset.kind, dataset.options) == (data["kind"], data["options"]):
        found["dataset"] = dataset
    return DataCopy.objects.update_or_create(**place, defaults=found)[0]
