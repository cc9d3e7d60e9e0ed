"""Template filters of data sets and campaigns."""

from __future__ import annotations

from django import template

from apps.campaigns.queries import breaks_sentence

register = template.Library()
PGBENCH_STEPS = {
    "d": "drop",
    "t": "create tables",
    "g": "generate data",
    "G": "generate on the server",
    "v": "vacuum",
    "p": "primary keys",
    "f": "foreign keys",
}


@register.filter
def step_name(step: str, kind: str) -> str:
    """What a step of creating a data set is called: those of pgbench -i are letters."""
    return PGBENCH_STEPS.get(step, step) if kind == "pgbench" else step


register.filter(breaks_sentence)
