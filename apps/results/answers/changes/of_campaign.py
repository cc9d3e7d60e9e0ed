"""Changes with each level of a campaign. Only reads (SELECT)."""

from __future__ import annotations

import stats
from apps.campaigns.design import factors, steps
from apps.campaigns.design.cells import cells
from apps.campaigns.design.factors import text_of
from apps.campaigns.models import Campaign
from apps.results.answers.changes.answer import ChangedLevel, Changes, changes
from apps.results.answers.changes.mechanisms import Settings
from apps.results.answers.changes.observed import PlacedRun
from apps.results.answers.table import CampaignTable, LevelRow
from common.wording import percent


def campaign_changes(campaign: Campaign, table: CampaignTable) -> Changes:
    """Return the changes for a table with the points of its runs, in the step of the campaign's metric."""
    chosen = steps.metric(campaign.steps, campaign.compared)
    metric = stats.Metric(table.metric, table.unit, table.better)  # type: ignore[arg-type]  # one of the two
    settings = _settings(campaign)
    base = [level for level in table.levels if level.label == table.baseline]
    others = [level for level in table.levels if level.label != table.baseline]
    subjects = [_subject(campaign, level, settings.get(level.label, {}), metric.label) for level in [*base, *others]]
    return changes(steps.measured(campaign.steps), chosen.step, _places(table), subjects, chosen.name)


def _subject(campaign: Campaign, level: LevelRow, settings: Settings, metric: str) -> ChangedLevel:
    varied = [factor["name"] for factor in campaign.factors if len(factor["levels"]) > 1]
    heading = level.name or level.label
    name = f"{varied[0]}={heading}" if len(varied) == 1 else heading
    moved = f"{metric} {percent(level.relative_percent)}" if level.relative_percent is not None else ""
    return ChangedLevel(level.label, name, heading, settings, moved)


def _settings(campaign: Campaign) -> dict[str, Settings]:
    """Return label -> the paths that its levels set; {} for an imported campaign, whose settings are unknown."""
    if campaign.kind == Campaign.Kind.IMPORTED:
        return {}
    design = cells(factors.read(campaign.factors), campaign.design, campaign.cells, campaign.sample, campaign.seed)
    return {
        text_of(cell): {path: value for level in cell.values() for path, value in level.set.items()} for cell in design
    }


def _places(table: CampaignTable) -> list[PlacedRun]:
    """Return the runs in their blocks. If hosts may differ, each host is one block."""
    points = [(level.label, point) for level in table.levels for point in level.points]
    hosts = sorted({point.host for _, point in points})
    if len(hosts) > 1 and not table.identical_hosts:
        return [PlacedRun(point.run, label, hosts.index(point.host), point.position) for label, point in points]
    return [
        PlacedRun(point.run, label, point.block, point.position, point.host, point.retry) for label, point in points
    ]
