"""Build form fields from the JSON schemas of the agent's registries, and convert input back to values.

A field is named by its path, such as settings.cpu_affinity.server. Errors use the same names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from jsonschema import Draft202012Validator

from apps import documents
from apps.tuning import rules
from common.errors import PlanError
from common.wording import on_off

Schema = Mapping[str, Any]
LONG_TEXT = 2000
LINES, DOTTED, LIST, JSON, SECTIONS = "lines", "dotted", "list", "json", "sections"
# Heading of one of several texts. It is a comment for readers of that text alone. Its name, which may have spaces
# around it, is possessive: otherwise the time of a mismatch would grow with the square of the length.
HEADING = re.compile(r"^-- script:(?P<name>[^@\n]*+)(?:@(?P<weight>[0-9]{1,9}))? *$", re.MULTILINE)


def build(path: str, schema: Schema, required: tuple[str, ...] = ()) -> Iterator[tuple[str, forms.Field]]:
    """Yield a field for each property of an object schema, and one for arbitrary names if the schema allows them."""
    for name, inner in schema.get("properties", {}).items():
        if inner.get("type") == "object":
            yield from build(f"{path}.{name}", inner)
        else:
            yield f"{path}.{name}", _field(name, inner, name in required)
    if _free(schema):
        yield path, _area(path.rpartition(".")[2], schema)


def _free(schema: Schema) -> bool:
    """Return whether an object accepts names that its schema does not list."""
    rest = schema.get("additionalProperties", not schema.get("properties"))
    return bool(rest) and schema.get("type", "object") == "object"


def _shape(schema: Schema) -> str:
    """Return the input form of a structured value: lines of name = value or name.field = value, a comma list, or
    JSON."""
    if schema.get("type") == "array" and "text" in schema.get("items", {}).get("properties", {}):
        return SECTIONS
    if schema.get("type") == "array":
        return LIST if _plain(schema.get("items", {})) else JSON
    if schema.get("type") != "object" and "properties" not in schema:
        return ""
    rest = schema.get("additionalProperties", True)
    if not isinstance(rest, Mapping) or _plain(rest):
        return LINES
    inner = rest.get("properties", {})
    return DOTTED if inner and all(_plain(each) for each in inner.values()) else JSON


def _plain(schema: Schema) -> bool:
    kinds = schema.get("type", "string")
    return not {"object", "array"} & ({kinds} if isinstance(kinds, str) else set(kinds))


def _field(name: str, schema: Schema, required: bool) -> forms.Field:
    common: dict[str, Any] = {"label": _label(name, schema), "help_text": _help(schema), "required": required}
    default = schema.get("default")
    if "enum" in schema:
        unset = "not set" if default is None else f"default: {default}"
        return forms.ChoiceField(choices=[("", unset), *((str(each), each) for each in schema["enum"])], **common)
    if schema.get("type") == "boolean":
        unset = "not set" if default is None else f"default: {'on' if default else 'off'}"
        return forms.ChoiceField(choices=[("", unset), ("on", "on"), ("off", "off")], **common)
    if schema.get("type") == "array":
        return _area(name, schema)
    if schema.get("maxLength", 0) > LONG_TEXT:
        return forms.CharField(widget=_editor(schema), strip=False, **common)
    return forms.CharField(widget=forms.TextInput(attrs={"placeholder": "" if default is None else default}), **common)


def _editor(schema: Schema) -> forms.Textarea:
    """A field for a long text; editor.js highlights the languages that it knows."""
    attrs: dict[str, Any] = {"class": "mono", "rows": 4, "spellcheck": "false"}
    language = schema.get("format")
    return forms.Textarea(attrs=attrs | ({"data-language": language, "rows": 10} if language else {}))


def _label(name: str, schema: Schema) -> str:
    """Return the title, with the unit unless the title contains it."""
    title, unit = schema.get("title") or name.replace("_", " "), schema.get("unit", "")
    return f"{title} ({unit})" if unit and unit not in title else title


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _help(schema: Schema) -> str:
    """Return the description and the limits."""
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = f"{_number(low)} to {_number(high)}" if None not in (low, high) else ""
    if not bounds and (low, high) != (None, None):
        bounds = f"At least {_number(low)}" if high is None else f"At most {_number(high)}"
    return ". ".join(filter(None, [schema.get("description", ""), bounds]))


_HOW = {
    LINES: "One per line: name = value",
    DOTTED: "One per line: ",
    LIST: "Separated by commas",
    JSON: "As JSON",
    SECTIONS: "Each starts with a line -- script: NAME@WEIGHT",
}


def _area(name: str, schema: Schema) -> forms.Field:
    shape = _shape(schema)
    named = schema.get("propertyNames", {}).get("description", "")
    rest = schema.get("additionalProperties")
    example = ", ".join(f"NAME.{each} = value" for each in rest["properties"]) if shape == DOTTED and rest else ""
    how = f"{_HOW[shape]}{example}"
    rows = 2 if shape == LIST else 5
    widget = forms.Textarea(attrs={"class": "mono", "rows": rows, "spellcheck": "false"})
    title = _label(name, schema) if not schema.get("properties") else f"{_label(name, schema)}: others"
    return forms.CharField(
        label=title,
        help_text=". ".join(filter(None, [schema.get("description", ""), named and f"Each name is {named}", how])),
        required=False,
        strip=shape != SECTIONS,
        widget=_editor(schema) if shape == SECTIONS else widget,
    )


def read(path: str, schema: Schema, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object that the fields of `build(path, schema)` describe. Empty fields are left out."""
    values: dict[str, Any] = {}
    for name, inner in schema.get("properties", {}).items():
        if inner.get("type") == "object":
            value: Any = read(f"{path}.{name}", inner, typed)
        else:
            text = typed.get(f"{path}.{name}", "")
            value = None if text in ("", None) else read_value(f"{path}.{name}", inner, text)
        if value not in (None, {}):
            values[name] = value
    if _free(schema) and typed.get(path):
        values |= read_value(path, schema, typed[path])
    return values


def read_value(path: str, schema: Schema, text: str) -> Any:
    """Convert text to a value of the schema. PlanError names the field if lines or JSON cannot be parsed."""
    shape = _shape(schema)
    if shape == SECTIONS:
        return read_sections(path, text)
    if shape == LIST:
        parts = [part.strip() for line in text.splitlines() for part in line.split(",")]
        return [parse(schema.get("items", {}), part) for part in parts if part]
    if shape == JSON:
        return read_json(path, schema, text)
    if shape == DOTTED:
        return read_dotted(path, schema["additionalProperties"], text)
    if shape == LINES:
        rest = schema.get("additionalProperties")
        inner = rest if isinstance(rest, Mapping) else {}
        return {name: parse(inner, value) for name, value in read_lines(path, text).items()}
    return parse(schema, unix(text))


def unix(text: str) -> str:
    """Convert the line breaks of a browser to LF."""
    return text.replace("\r\n", "\n")


def read_sections(path: str, text: str) -> list[dict[str, Any]]:
    """Split a text with headings into [{"name", "text"}], with "weight" if the heading has one."""
    text = unix(text)
    headings = list(HEADING.finditer(text))
    above = text[: headings[0].start()] if headings else text
    if above.strip():
        raise PlanError(
            path, "the first line does not start a script", hint="add -- script: NAME@WEIGHT above each script"
        )
    ends = [each.start() - 1 for each in headings[1:]] + [len(text)]
    sections = []
    for heading, end in zip(headings, ends, strict=True):
        weight = {"weight": int(heading["weight"])} if heading["weight"] else {}
        sections.append(
            {
                "name": heading["name"].strip(" "),
                **weight,
                "text": text[heading.end() + 1 : max(end, heading.end() + 1)],
            }
        )
    return sections


def line_in_sections(text: str, name: str, line: int) -> int:
    """Return the line number in the whole text for a line of the named section."""
    above = next((match.end() for match in HEADING.finditer(unix(text)) if match["name"].strip(" ") == name), 0)
    return unix(text)[:above].count("\n") + 1 + line


def read_dotted(path: str, inner: Schema, text: str) -> dict[str, Any]:
    """Parse "vda.scheduler = none" -> {"vda": {"scheduler": "none"}}. The last dot separates the field."""
    objects: dict[str, Any] = {}
    for key, value in read_lines(path, text).items():
        name, _, field = key.rpartition(".")
        if not name or field not in inner["properties"]:
            raise PlanError(path, f"{key} is not NAME.FIELD", hint=f"accepted: {', '.join(inner['properties'])}")
        objects.setdefault(name, {})[field] = parse(inner["properties"][field], value)
    return objects


def read_json(path: str, schema: Schema, text: str) -> Any:
    """Parse JSON of the type in the schema."""
    expected = list if schema.get("type") == "array" else dict
    try:
        value = documents.read_json(text)
    except ValueError as error:
        raise PlanError(path, f"not valid JSON: {error}", hint="put names and texts in double quotes") from error
    if not isinstance(value, expected):
        name, hint = ("list", "[...]") if expected is list else ("object", '{"NAME": ...}')
        raise PlanError(path, f"not a valid {name}", hint=f"write {hint}")
    return value


def read_lines(path: str, text: str) -> dict[str, Any]:
    r"""Parse "a = 1\nb = 'x'" as in postgresql.conf -> {"a": "1", "b": "x"}. # starts a comment."""
    values: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals or not name.strip():
            raise PlanError(path, f"line {number}, {stripped!r}, has no value", hint="use: name = value")
        if name.strip() in values:
            raise PlanError(path, f"line {number}: {name.strip()} appears twice", hint="keep one of them")
        values[name.strip()] = _unquoted(value.strip())
    return values


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    return value.partition(" #")[0].strip()


def parse(schema: Schema, text: str) -> Any:
    """Convert text to the type in the schema. Text that does not fit is unchanged, and the schema reports the error."""
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        value = parse(choice, text)
        if Draft202012Validator(choice).is_valid(value):
            return value
    kinds = schema.get("type", "string")
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if "boolean" in kinds and "string" not in kinds and text.lower() in ("on", "off", "true", "false"):
        return text.lower() in ("on", "true")
    if "string" in kinds and Draft202012Validator({**schema, "type": "string"}).is_valid(text):
        return text
    for kind, convert in (("integer", int), ("number", float)):
        if kind in kinds:
            try:
                return convert(text)
            except ValueError:
                continue
    return text


def initial_values(path: str, value: Any, schema: Schema) -> dict[str, Any]:
    """Return initial values for the fields of `build(path, schema)`."""
    initial: dict[str, Any] = {}
    values, listed = value or {}, schema.get("properties", {})
    for name, inner in listed.items():
        each = values.get(name)
        if inner.get("type") == "object":
            initial |= initial_values(f"{path}.{name}", each, inner)
        elif each is not None:
            initial[f"{path}.{name}"] = _spelled(inner, each)
    if _free(schema):
        initial[path] = _spelled(schema, {name: each for name, each in values.items() if name not in listed})
    return initial


def _spelled(schema: Schema, value: Any) -> str:
    shape = _shape(schema) if isinstance(value, list | dict) else ""
    if not value and shape:
        return ""
    if shape == SECTIONS:
        return "\n".join(f"{_heading(each)}\n{each['text']}" for each in value)
    if shape == LIST:
        return ", ".join(on_off(each) for each in value)
    if shape == JSON:
        return json.dumps(value, indent=2, ensure_ascii=False)
    if shape == DOTTED:
        rows = [(name, field, each) for name, inner in value.items() for field, each in inner.items()]
        return "\n".join(f"{name}.{field} = {on_off(each)}" for name, field, each in rows)
    if shape == LINES:
        return "\n".join(f"{name} = {on_off(each)}" for name, each in value.items())
    return on_off(value)


def _heading(section: Mapping[str, Any]) -> str:
    weight = f"@{section['weight']}" if "weight" in section else ""
    return f"-- script: {section['name']}{weight}"


def schema_of(path: str, roots: Mapping[str, Schema]) -> Schema:
    """Return the schema at a dotted path such as settings.huge_pages.use; {} for an unknown path."""
    head, *rest = path.split(".", 2) if path.startswith("settings.") else path.split(".", 1)
    schema = roots.get(f"{head}.{rest[0]}" if head == "settings" and rest else head, {})
    for key in ".".join(rest[1:] if head == "settings" else rest).split("."):
        inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
        schema = inner if isinstance(inner, Mapping) else {}
    return schema


def paths(roots: Mapping[str, Schema]) -> list[str]:
    """Return every path that a factor may set, as suggestions for a field."""
    known: list[str] = []
    for root, schema in roots.items():
        known += [f"{root}.{path}" for path in rules.flatten(_leaves(schema))] or [f"{root}."]
    return known


def _leaves(schema: Schema) -> dict[str, Any]:
    return {name: _leaves(inner) or None for name, inner in schema.get("properties", {}).items()}
