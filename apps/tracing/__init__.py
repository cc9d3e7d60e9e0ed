"""Traces in OpenTelemetry's format: web requests, tasks, SQL statements, and the phases of runs.

Without PROVING_OTLP_ENDPOINT, nothing is recorded and no module of OpenTelemetry is imported: only `exporting`, `sdk`,
`statements` and `tasks` import them, and only an enabled server imports these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.conf import settings

from apps.tracing.runs import Interval, RunTrace


def is_on() -> bool:
    """Return whether spans are sent to a collector."""
    return bool(settings.OTLP_ENDPOINT)


@contextmanager
def span(name: str) -> Iterator[None]:
    """Record the duration of the `with` block as a part of the present request or task, if that is traced."""
    if not is_on():
        yield
        return
    from apps.tracing import sdk

    with sdk.part(name):
        yield


def continue_with(task: str, run: UUID) -> None:
    """Record what follows in the present task as a task of this run, as if a message had been sent for it."""
    if is_on():
        from apps.tracing import tasks

        tasks.continue_with(task, run)


def write_run(trace: RunTrace) -> None:
    """Record an ended run and its phases, at the times at which they happened."""
    if is_on():
        from apps.tracing import sdk

        sdk.write_run(trace)


__all__ = ["Interval", "RunTrace", "continue_with", "is_on", "span", "write_run"]
