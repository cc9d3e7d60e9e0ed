"""The margin of a figure: the smallest change that matters. Pure."""

from __future__ import annotations

from apps.campaigns.design import steps
from apps.campaigns.models import Campaign

P99, P99_MARGIN = "p99", 0.05


def margin_of(figure: str, campaign: Campaign) -> float:
    """Return the margin of a figure, such as latency_p99, as a fraction: that of the campaign for its metric, 5 % for
    other 99th percentiles, which vary more, and that of the campaign for all else."""
    if not figure.endswith(P99):
        return campaign.delta
    is_metric = bool(campaign.metric) and steps.metric(campaign.steps, campaign.compared).name == figure
    return campaign.delta if is_metric else P99_MARGIN
