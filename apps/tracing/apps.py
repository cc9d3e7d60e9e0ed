"""An app of Django that exists only while traces are enabled: it records the tasks of this process."""

from __future__ import annotations

from django.apps import AppConfig


class TracingConfig(AppConfig):
    name = "apps.tracing"

    def ready(self) -> None:
        from apps.tracing import tasks

        tasks.connect()
