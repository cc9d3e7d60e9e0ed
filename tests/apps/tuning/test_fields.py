"""Form fields from schemas: every type can be entered and shown again, and errors name the field."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agents.settings import SETTINGS
from apps.tuning import fields
from common.errors import PlanError

QUEUE = {"type": "object", "properties": {"scheduler": {"type": "string"}}, "additionalProperties": False}
SHAPES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pool": {"anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer", "minimum": 0}]},
        "ratio": {"type": "integer", "title": "Ratio", "unit": "%", "minimum": 0, "maximum": 100},
        "boost": {"type": "boolean"},
        "cpus": {"type": "array", "items": {"type": "integer"}},
        "rules": {"type": "array", "items": {"type": "object"}},
        "nodes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "tree": {
            "type": "object",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "object"}},
        },
        "scripts": {"type": "array", "format": "sql", "items": {"type": "object", "properties": {"text": {}}}},
        "disks": {"type": "object", "properties": {"data": QUEUE}, "additionalProperties": QUEUE},
    },
    "additionalProperties": False,
}
VALUE: dict[str, Any] = {
    "pool": 700,
    "ratio": 5,
    "boost": True,
    "cpus": [0, 2],
    "rules": [{"a": 1}],
    "nodes": {"0": 10, "1": 20},
    "tree": {"a": {"b": {"c": 1}}},
    "scripts": [{"name": "a", "weight": 3, "text": "\nselect 1;\n"}, {"name": "b", "text": "select 2;"}],
    "disks": {"data": {"scheduler": "none"}, "vda": {"scheduler": "kyber"}},
}


def test_input_is_shown_again_unchanged() -> None:
    typed = fields.initial_values("s", VALUE, SHAPES)

    assert fields.read("s", SHAPES, typed) == VALUE
    assert typed["s.cpus"] == "0, 2"
    assert typed["s.scripts"] == "-- script: a@3\n\nselect 1;\n\n-- script: b\nselect 2;"
    assert typed["s.nodes"] == "0 = 10\n1 = 20"
    assert typed["s.disks.data.scheduler"] == "none" and typed["s.disks"] == "vda.scheduler = kyber"


def test_every_field_that_is_shown_is_built() -> None:
    assert set(fields.initial_values("s", VALUE, SHAPES)) <= set(dict(fields.build("s", SHAPES)))


def test_empty_fields_say_nothing() -> None:
    assert fields.read("s", SHAPES, dict.fromkeys(fields.initial_values("s", VALUE, SHAPES), "")) == {}


def test_a_field_shows_its_unit_and_its_bounds() -> None:
    field = dict(fields.build("s", SHAPES))["s.ratio"]

    assert (field.label, field.help_text) == ("Ratio (%)", "0 to 100")


@pytest.mark.parametrize(("typed", "value"), [("auto", "auto"), ("12", 12), ("many", "many")])
def test_a_choice_of_types_takes_the_one_that_fits(typed: str, value: Any) -> None:
    assert fields.read("s", SHAPES, {"s.pool": typed}) == {"pool": value}


@pytest.mark.parametrize(
    ("typed", "field", "message"),
    [
        ({"s.tree": "{vda: 1}"}, "s.tree", "not valid JSON"),
        ({"s.tree": "[]"}, "s.tree", "not a valid object"),
        ({"s.disks": "vda = none"}, "s.disks", "not NAME.FIELD"),
        ({"s.disks": "vda.colour = red"}, "s.disks", "vda.colour is not NAME.FIELD"),
        ({"s.rules": "{}"}, "s.rules", "not a valid list"),
        ({"s.nodes": "0 10"}, "s.nodes", "has no value"),
        ({"s.scripts": "select 1;\n-- script: a\nselect 2;"}, "s.scripts", "the first line does not start a script"),
        ({"s.scripts": "select 1;"}, "s.scripts", "the first line does not start a script"),
    ],
)
def test_an_invalid_value_is_refused_by_its_field(typed: dict[str, str], field: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        fields.read("s", SHAPES, typed)

    assert refused.value.subject == field


def test_texts_come_from_browsers_as_they_were_written() -> None:
    typed = fields.initial_values("s", VALUE, SHAPES)["s.scripts"].replace("\n", "\r\n")

    assert fields.read("s", SHAPES, {"s.scripts": typed}) == {"scripts": VALUE["scripts"]}


@pytest.mark.parametrize(("name", "line", "place"), [("a", 2, 3), ("b", 1, 6)])
def test_a_line_of_a_section_is_converted_to_a_line_of_the_whole_text(name: str, line: int, place: int) -> None:
    typed = fields.initial_values("s", VALUE, SHAPES)["s.scripts"]

    assert fields.line_in_sections(typed, name, line) == place
    assert typed.splitlines()[place - 1].startswith("select")


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_of_the_catalogue_can_be_typed(name: str) -> None:
    schema = SETTINGS[name].schema

    built = dict(fields.build(name, schema))

    assert built and all(field.label for field in built.values())
    Draft202012Validator.check_schema(schema)
