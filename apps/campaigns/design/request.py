"""What users choose for a campaign: each field once, with its type and its default. Pure.

A field is a column of Campaign, whose help describes it. Clones, recipes, evidence and the API take the names of the
fields from here."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from agents.collectors import USUAL

if TYPE_CHECKING:
    from apps.campaigns.models import Campaign, DataSet, Workload
    from apps.hosts.models import Host
    from apps.tuning.models import Revision


def all_sources() -> list[str]:
    return list(USUAL)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None. None selects the default of a field."""
    return {name: value for name, value in values.items() if value is not None}


class _Choices:
    """A dataclass of choices."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of its fields, in the order of their declaration."""
        return tuple(each.name for each in fields(cls))  # type: ignore[arg-type]  # subclasses are dataclasses

    @classmethod
    def of(cls, campaign: Campaign) -> Self:
        """Return the choices of a campaign."""
        chosen = {name: getattr(campaign, name) for name in cls.names()}
        if "further_hosts" in chosen:
            chosen["further_hosts"] = list(campaign.further_hosts.all())
        return cls(**chosen)


@dataclass(frozen=True, kw_only=True)
class Subject(_Choices):
    """What is measured, and on which host."""

    name: str
    question: str
    recipe: str = ""
    recipe_version: int | None = None
    host: Host
    target: dict[str, str] = field(default_factory=dict)
    profile: Revision | None = None
    workload: Workload
    dataset: DataSet | None = None


@dataclass(frozen=True, kw_only=True)
class Arrangement(_Choices):
    """Which runs are planned, in which order and under which run conditions."""

    factors: list[dict[str, Any]]
    design: str = "factorial"
    cells: list[dict[str, str]] = field(default_factory=list)
    sample: int | None = None
    repetitions: int = 5
    order: str = "randomised"
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    reboot: str = "never"
    nuisance: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ending(_Choices):
    """What ends or pauses a campaign before its last run."""

    stop: dict[str, Any] = field(default_factory=dict)
    budget_h: float | None = None
    max_failures: int | None = None


@dataclass(frozen=True, kw_only=True)
class CampaignDesign(Ending, Arrangement, Subject):
    """All choices of a campaign, in the order of the API: Subject, Arrangement, Ending, and the fields below."""

    priority: int = 0
    placement: str = "one"
    further_hosts: Sequence[Host] = ()
    roles: dict[str, Any] = field(default_factory=dict)
    metric: str = "tps"
    delta: float = 0.02
    interval_s: float = 1.0
    sources: list[str] = field(default_factory=all_sources)

    def changed(self, **changes: Any) -> CampaignDesign:
        """Return a copy with these fields. None restores the default of a field."""
        kept = {name: value for name, value in vars(self).items() if name not in changes}
        return CampaignDesign(**kept, **given(changes))

    def columns(self) -> dict[str, Any]:
        """Return the fields that are columns of the row: all but the further hosts."""
        return {name: value for name, value in vars(self).items() if name != "further_hosts"}
