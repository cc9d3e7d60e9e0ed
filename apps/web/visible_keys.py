"""Fields of the API with the key of another object, which the user may be unable to see."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from rest_framework import serializers

from apps.accounts.models.walls import hidden_keys


class VisibleKeyField(serializers.PrimaryKeyRelatedField[Any]):
    """The key, or null if a private team hides the object from the user. One query for all rows, and none if no team is
    hidden."""

    def __init__(self, model: type[Model], **options: Any) -> None:
        self.model = model
        super().__init__(allow_null=True, **options)

    def to_representation(self, value: Any) -> Any:
        key = super().to_representation(value)
        known: dict[str, Any] = self.context  # type: ignore[assignment]  # of the outermost serializer
        name = f"hidden {self.model.__name__}"
        if name not in known:
            known[name] = set(hidden_keys(self.model))
        return None if value.pk in known[name] else key
