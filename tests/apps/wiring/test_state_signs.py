"""States on pages: each has a symbol beside its colour."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps import apps

from apps.state_signs import SIGNS

STATES = ("state", "status", "outcome")


def states() -> Iterator[tuple[str, str]]:
    """(model and field, state) of all models."""
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if field.name in STATES and model.__module__.startswith("apps."):
                yield from ((f"{model.__name__}.{field.name}", str(value)) for value, _ in field.flatchoices if value)


@pytest.mark.parametrize(("field", "state"), sorted(states()))
def test_every_state_of_every_model_has_a_symbol(field: str, state: str) -> None:
    assert SIGNS[state][1]
