"""Template filters of the pages of runs and campaigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.utils.html import format_html

from apps.accounts.templatetags.pages import DASH, figure
from apps.campaigns.design.factors import readable_name
from apps.campaigns.models import RunEvent
from apps.results.answers.summary import SummaryCell
from apps.results.runs.page_content import text_of

register = template.Library()
PHASES = {"ROLLING_BACK": "restoring"}


@register.filter
def event_text(event: RunEvent) -> str:
    """Return an event as one line of text."""
    return text_of(event)


@register.filter
def levels_text(cell: Mapping[str, str], factors: Sequence[Mapping[str, Any]]) -> str:
    """Return the levels of a run, without fixed settings, which are factors with one level."""
    return readable_name(factors, cell)


@register.filter
def mean_text(cell: SummaryCell) -> str:
    """Return a cell of a table of means. Not a template, because a campaign with many levels has hundreds of them."""
    if not cell.n:
        return DASH
    between = "" if cell.low is None else f"{figure(cell.low, 4)} to {figure(cell.high, 4)}, "
    return format_html('{}<br><span class="muted nowrap">{}n = {}</span>', figure(cell.mean, 4), between, cell.n)


@register.filter
def phase_name(state: str) -> str:
    """The state of an agent as the name of a phase: ROLLING_BACK -> "restoring"."""
    return PHASES.get(state, state.lower().replace("_", " "))


@register.filter
def state_text(state: str) -> str:
    """not_put_back -> "not restored"."""
    return str(state).replace("put_back", "restored").replace("left_alone", "conflict: not restored").replace("_", " ")
