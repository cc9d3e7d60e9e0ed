"""Fields of the API that have a new name. The earlier name works for one more release, and the schema marks it as
deprecated."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from drf_spectacular.drainage import get_override
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.fields import empty

Field = serializers.Field[Any, Any, Any, Any]
S = TypeVar("S", bound=serializers.Serializer[Any])


def with_earlier_names(**names: str) -> Callable[[type[S]], type[S]]:
    """Decorate a serializer so that its fields also have their earlier names: `@with_earlier_names(found="actual")`.

    Responses have both names with the same value. If the serializer declares the earlier name itself, that declaration
    is used. Requests may use either name; ValidationError if they use both with different values.
    """

    def decorate(serializer: type[S]) -> type[S]:
        get_fields, to_internal_value = serializer.get_fields, serializer.to_internal_value

        def get_both(self: Any) -> dict[str, Field]:
            fields = get_fields(self)
            earlier = {each: _copy(each, name, fields[name]) for each, name in names.items() if each not in fields}
            return fields | earlier

        def read_either(self: Any, data: Any) -> Any:
            return to_internal_value(self, _in_new_names(data, names) if isinstance(data, dict) else data)

        serializer.get_fields = get_both  # type: ignore[method-assign]  # a subclass would lose its name in the schema
        serializer.to_internal_value = read_either  # type: ignore[method-assign]
        deprecated = [*get_override(serializer, "deprecate_fields", []), *names]
        return extend_schema_serializer(deprecate_fields=deprecated)(serializer)

    return decorate


def _copy(earlier: str, name: str, field: Field) -> Field:
    """Return the field `name` for its earlier name. It has no default, which would replace a value of the new name."""
    copied = copy.deepcopy(field)
    copied.help_text, copied.required, copied.default = f"use {name}", False, empty
    if isinstance(copied, serializers.SerializerMethodField):
        copied.method_name = copied.method_name or f"get_{name}"
    else:
        source = field.source or name
        copied.source = None if source == earlier else source  # Field.bind refuses a source that is the name
    return copied


def _in_new_names(body: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    sent = dict(body)
    for earlier, name in names.items():
        if earlier in sent:
            value = sent.pop(earlier)
            if sent.setdefault(name, value) != value:
                raise serializers.ValidationError({earlier: f"it differs from {name}, its new name; send only {name}"})
    return sent
