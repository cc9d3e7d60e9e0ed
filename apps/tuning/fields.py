"""Form fields from the JSON schemas of the agent's registries, and values back from what was typed.

A field is named by its path, such as settings.cpu_affinity.server, which is also how errors name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django import forms

from apps.errors import PlanError
from apps.tuning import rules

Schema = Mapping[str, Any]
LONG_TEXT = 2000


def build(path: str, schema: Schema, required: tuple[str, ...] = ()) -> Iterator[tuple[str, forms.Field]]:
    """A field for each property of an object schema; an object of free keys becomes lines of `name = value`, and so do
    those beside the properties."""
    properties = schema.get("properties", {})
    if not properties or _has_free_keys(schema):
        yield path, _lines(schema)
    for name, inner in properties.items():
        if inner.get("type") == "object":
            yield from build(f"{path}.{name}", inner)
        else:
            yield f"{path}.{name}", _field(name, inner, name in required)


def _field(name: str, schema: Schema, required: bool) -> forms.Field:
    common: dict[str, Any] = {
        "label": schema.get("title") or name.replace("_", " "),
        "help_text": schema.get("description", ""),
        "required": required,
    }
    default = schema.get("default")
    if "enum" in schema:
        unset = "not set" if default is None else f"default: {default}"
        return forms.ChoiceField(choices=[("", unset), *((each, each) for each in schema["enum"])], **common)
    if schema.get("type") == "boolean":
        unset = "not set" if default is None else f"default: {'on' if default else 'off'}"
        return forms.ChoiceField(choices=[("", unset), ("on", "on"), ("off", "off")], **common)
    if schema.get("maxLength", 0) > LONG_TEXT:
        return forms.CharField(widget=forms.Textarea(attrs={"class": "mono", "rows": 4}), strip=False, **common)
    return forms.CharField(widget=forms.TextInput(attrs={"placeholder": "" if default is None else default}), **common)


def _has_free_keys(schema: Schema) -> bool:
    return isinstance(schema.get("additionalProperties"), Mapping)


def _lines(schema: Schema) -> forms.Field:
    group = schema.get("additionalProperties", {}).get("properties", {}) if _has_free_keys(schema) else {}
    form = f"NAME.{next(iter(group))} = value" if group else "name = value"
    return forms.CharField(
        label=schema.get("title", ""),
        help_text=". ".join(filter(None, [schema.get("description", ""), f"One a line: {form}"])),
        required=False,
        widget=forms.Textarea(attrs={"class": "mono", "rows": 6, "spellcheck": "false"}),
    )


def read(path: str, schema: Schema, typed: Mapping[str, Any]) -> dict[str, Any]:
    """The object that the fields of `build(path, schema)` describe; what was left empty is left out."""
    properties = schema.get("properties", {})
    free = not properties or _has_free_keys(schema)
    found = _read_free(path, schema, typed.get(path, "")) if free else {}
    for name, inner in properties.items():
        if inner.get("type") == "object":
            value: Any = read(f"{path}.{name}", inner, typed)
        else:
            text = typed.get(f"{path}.{name}", "")
            value = None if text in ("", None) else parse(inner, text)
        if value not in (None, {}):
            found[name] = value
    return found


def _read_free(path: str, schema: Schema, text: str) -> dict[str, Any]:
    """Lines as values; where each name is a group, `sda.scheduler = none` is {"sda": {"scheduler": "none"}}."""
    lines, rest = read_lines(path, text), schema.get("additionalProperties", {})
    if not (isinstance(rest, Mapping) and rest.get("properties")):
        return dict(lines)
    typed = {name: parse(rest["properties"].get(name.rpartition(".")[2], {}), value) for name, value in lines.items()}
    return rules.patch({}, typed)


def read_lines(path: str, text: str) -> dict[str, Any]:
    """ "a = 1\\nb = 'x'" as postgresql.conf writes it -> {"a": "1", "b": "x"}; # begins a comment."""
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals or not name.strip():
            raise PlanError(path, f"line {number}, {stripped!r}, sets nothing", hint="write: shared_buffers = 1GB")
        if name.strip() in found:
            raise PlanError(path, f"line {number}: {name.strip()} stands twice", hint="keep one of them")
        found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    return value.partition(" #")[0].strip()


def parse(schema: Schema, text: str) -> Any:
    """Text as the type that the schema wants; what does not fit stays text, for the schema's own error."""
    kinds = schema.get("type", "string")
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if "string" in kinds:
        return text
    if "boolean" in kinds and text.lower() in ("on", "off", "true", "false"):
        return text.lower() in ("on", "true")
    for kind, convert in (("integer", int), ("number", float)):
        if kind in kinds:
            try:
                return convert(text)
            except ValueError:
                continue
    return text


def shown(path: str, value: Any, schema: Schema) -> dict[str, Any]:
    """Initial values of the fields of `build(path, schema)`."""
    properties = schema.get("properties", {})
    initial: dict[str, Any] = {}
    if not properties or _has_free_keys(schema):
        free = rules.flatten({name: each for name, each in (value or {}).items() if name not in properties})
        initial[path] = "\n".join(f"{name} = {_spelled(each)}" for name, each in free.items())
    for name, inner in properties.items():
        given = (value or {}).get(name)
        if inner.get("type") == "object":
            initial |= shown(f"{path}.{name}", given, inner)
        elif given is not None:
            initial[f"{path}.{name}"] = _spelled(given)
    return initial


def _spelled(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def schema_of(path: str, roots: Mapping[str, Schema]) -> Schema:
    """The schema at a dotted path such as settings.huge_pages.use; {} where it is not known."""
    head, *rest = path.split(".", 2) if path.startswith("settings.") else path.split(".", 1)
    schema = roots.get(f"{head}.{rest[0]}" if head == "settings" and rest else head, {})
    for key in ".".join(rest[1:] if head == "settings" else rest).split("."):
        inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
        schema = inner if isinstance(inner, Mapping) else {}
    return schema


def paths(roots: Mapping[str, Schema]) -> list[str]:
    """Every path that a factor may set, for the list that a field offers."""
    known: list[str] = []
    for root, schema in roots.items():
        known += [f"{root}.{path}" for path in rules.flatten(_leaves(schema))] or [f"{root}."]
    return known


def _leaves(schema: Schema) -> dict[str, Any]:
    return {name: _leaves(inner) or None for name, inner in schema.get("properties", {}).items()}
