"""The OpenAPI description is valid and complete, and its page works under the content security policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client

pytestmark = pytest.mark.xdist_group("schema")  # one worker creates it, once: it takes 3 s of CPU time


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    target = tmp_path_factory.mktemp("schema") / "schema.yml"
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(target))
    return yaml.safe_load(target.read_text())


def test_it_is_generated_without_a_warning_and_says_how_to_log_in(schema: Any) -> None:
    assert {"/api/v1/campaigns/{id}/start/", "/api/v1/campaigns/{campaign}/results/"} <= set(schema["paths"])
    assert schema["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


def test_every_operation_has_a_description_of_its_problems(schema: Any) -> None:
    operations = [operation for path in schema["paths"].values() for operation in path.values()]

    assert all("application/problem+json" in each["responses"]["default"]["content"] for each in operations)


def test_private_keys_are_written_and_never_read(schema: Any) -> None:
    assert schema["components"]["schemas"]["Identity"]["properties"]["private_key"]["writeOnly"]


def enums(part: Any) -> Iterator[dict[str, Any]]:
    """Every part of the schema that lists its accepted values."""
    if isinstance(part, dict):
        if isinstance(part.get("enum"), list):
            yield part
        for inner in part.values():
            yield from enums(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from enums(inner)


def test_a_default_is_one_of_the_accepted_values(schema: Any) -> None:
    outside = [enum for enum in enums(schema) if "default" in enum and enum["default"] not in enum["enum"]]

    assert outside == []


def test_earlier_names_of_fields_are_deprecated_and_name_their_successors(schema: Any) -> None:
    fields = [
        (component, name, field)
        for component, of in schema["components"]["schemas"].items()
        for name, field in of.get("properties", {}).items()
    ]

    successors = {(component, name): field["description"] for component, name, field in fields if "deprecated" in field}

    assert successors == {
        ("Campaign", "cells"): "use combinations",
        ("Campaign", "design_told"): "use design_sentences",
        ("CampaignTable", "look"): "use interim_analysis",
        ("CampaignTable", "unplanned_look"): "use unplanned_analysis",
        ("Change", "found"): "use actual",
        ("Check", "found"): "use actual",
        ("Choices", "cells"): "use combinations",
        ("Complaint", "said"): "use tool_message",
        ("DecisionEvent", "words"): "use text",
        ("Drift", "asked"): "use queried",
        ("DriftRow", "found"): "use actual",
        ("Effect", "found"): "use present",
        ("Entry", "words"): "use text",
        ("FoundRun", "cell"): "use levels",
        ("Health", "found"): "use actual",
        ("NewCampaign", "cells"): "use combinations",
        ("Observed", "within"): "use findings",
        ("Planned", "cell"): "use levels",
        ("ProofCheck", "found"): "use actual",
        ("Reason", "words"): "use text",
        ("Review", "words"): "use text",
        ("Run", "cell"): "use levels",
        ("RunRow", "cell"): "use levels",
        ("Shared", "words"): "use label",
        ("StartedCampaign", "cells"): "use combinations",
        ("StartedCampaign", "design_told"): "use design_sentences",
        ("Subject", "looks"): "use checks",
        ("SummaryFigure", "cells"): "use by_level",
    }


def test_the_docs_have_no_inline_script(db: None) -> None:
    page = Client().get("/api/docs/")

    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page.content.decode(), re.DOTALL)
    assert len(scripts) == 3
    assert all("src=" in attributes and not text.strip() for attributes, text in scripts)
    assert "script-src 'self'" in page["Content-Security-Policy"]
