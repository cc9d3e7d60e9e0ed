"""The runbook has a section for each alert and each failure that the server reports, and quotes only what exists."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from apps.accounts.notices.events import KINDS
from apps.hosts.models import Host
from apps.monitoring import health
from common.wording import host_state
from tests.apps.wiring.test_metrics import metrics_in
from tests.documents import language, messages

ROOT = Path(__file__).resolve().parents[2]
RUNBOOK = (ROOT / "docs" / "operations" / "runbook.md").read_text()
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].keys()
METRICS = "".join((ROOT / "apps" / "monitoring" / name).read_text() for name in ("metrics.py", "latencies.py"))
PRODUCTION = (ROOT / "docs" / "operations" / "production.md").read_text()
PARTS = ["Symptom", "Causes", "Check", "Next step", "Afterwards"]
# Kinds of events that report results. All others report a failure.
RESULTS = {"campaign.finished", "schedule.regression", "decision.stale", "decision.contradicted"}
OUT_OF_SERVICE = (Host.State.QUARANTINED, Host.State.UNREACHABLE, Host.State.UNFIT)
# Words of the runbook that stand for names and numbers.
PLACEHOLDER = re.compile(
    r"(?<![A-Za-z_])(CHECK|DIGEST|FILE|FOUND|HOST|METHOD|N|NAMES?|PATH|REASON|REQUIRED|RUN|SEAL|STATE|TASK|TIME|URL|USER"
    r"|VERB)(?![A-Za-z])"
)
COMMAND = re.compile(r"manage\.py ([a-z]\w+)([^|`>\n]*)")
OF_COMPOSE = re.compile(r"docker compose (?:--profile \w+ )?(exec|run|ps|logs|restart|up|build|rm)\b([^|`#>;)\n]*)")
METRIC = re.compile(r"\bproving_\w+(?=[`{])")
NAME = re.compile(r"`([A-Z]+_[A-Z_]+)(?:=[^`]*)?`")


@dataclass(frozen=True)
class Section:
    """A section about one failure: its heading, and its parts by their names."""

    heading: str
    parts: dict[str, str]

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w -]", "", self.heading).lower().replace(" ", "-")


def sections() -> list[Section]:
    _, *texts = re.split(r"^### ", re.sub(r"^## .*$", "", RUNBOOK, flags=re.MULTILINE), flags=re.MULTILINE)
    return [Section(text.split("\n")[0], _parts(text)) for text in texts]


def _parts(text: str) -> dict[str, str]:
    _, *pieces = re.split(rf"^\*\*({'|'.join(PARTS)})\.\*\*\s", text, flags=re.MULTILINE)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


SECTIONS = sections()


def sections_with(symptom: str) -> list[Section]:
    return [section for section in SECTIONS if symptom in section.parts.get("Symptom", "")]


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE))


@cache
def shown_by_the_product() -> str:
    """The texts of templates and of strings in sources, one a line, with X for each value."""
    folders = ("apps", "agents", "common")
    templates = (ROOT / "templates").rglob("*.html")
    sources = (file for folder in folders for file in (ROOT / folder).rglob("*.py") if "migrations" not in file.parts)
    texts = [text for file in templates for text in language.text_of_template(file.read_text())]
    texts += [text for file in sources for _, text in messages._strings(ast.parse(file.read_text()))]
    texts += [text for file in (ROOT / "static").glob("*.js") for text in messages.text_of_script(file.read_text())]
    texts.append((ROOT / "deploy" / "upgrade").read_text())
    return "\n".join(re.sub(r"%(\.\d)?[sdrf]", "X", " ".join(text.split())) for text in texts)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.anchor)
def test_a_section_has_its_parts_in_their_order(section: Section) -> None:
    assert [name for name, text in section.parts.items() if text.strip()] == PARTS


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_is_the_symptom_of_the_section_that_it_names(alert: str) -> None:
    found = sections_with(f"Alert `{alert}`")

    assert [f"docs/operations/runbook.md#{section.anchor}" for section in found] == [
        ALERTS[alert]["annotations"].get("runbook")
    ]


def test_the_runbook_names_no_other_alert() -> None:
    assert set(re.findall(r"`(ProvingGround\w+)`", RUNBOOK)) == ALERTS.keys()


@pytest.mark.parametrize("check", health.PARTS)
def test_a_check_of_readyz_that_fails_is_the_symptom_of_a_section(check: str) -> None:
    assert sections_with(f'`"{check}": "')


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - RESULTS))
def test_an_event_that_reports_a_failure_is_the_symptom_of_a_section(kind: str) -> None:
    assert sections_with(f"`{kind}`")


@pytest.mark.parametrize("state", OUT_OF_SERVICE)
def test_a_state_in_which_a_host_takes_no_runs_has_a_section(state: str) -> None:
    assert f"A host is {host_state(state)}" in [section.heading for section in SECTIONS]


@pytest.mark.thorough
def test_texts_in_double_quotes_are_shown_by_the_product() -> None:
    quoted = [" ".join(text.split()).removesuffix(".") for text in re.findall(r'"([^"]+)"', without_code(RUNBOOK))]

    assert [text for text in quoted if PLACEHOLDER.sub("X", text) not in shown_by_the_product()] == []


@pytest.mark.thorough
def test_texts_in_bold_are_names_of_parts_or_buttons() -> None:
    bold = set(re.findall(r"\*\*([^*]+)\*\*", without_code(RUNBOOK))) - {f"{part}." for part in PARTS}

    assert [text for text in bold if PLACEHOLDER.sub("X", text) not in shown_by_the_product().split("\n")] == []


@pytest.mark.parametrize(("name", "arguments"), sorted(set(COMMAND.findall(RUNBOOK))))
def test_a_command_of_the_server_exists_with_its_options(name: str, arguments: str) -> None:
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)

    assert set(re.findall(r"(?<= )--[a-z-]+", arguments)) <= parser._option_string_actions.keys()


@pytest.mark.parametrize(("verb", "arguments"), sorted(set(OF_COMPOSE.findall(RUNBOOK))))
def test_a_command_of_compose_names_services(verb: str, arguments: str) -> None:
    words = [word for word in arguments.split() if not word.startswith("-")]

    assert set(words[:1] if verb in ("exec", "run") else words) <= SERVICES


def test_the_metrics_exist() -> None:
    assert metrics_in(" ".join(METRIC.findall(RUNBOOK))) <= metrics_in(METRICS)


def test_the_variables_are_those_of_the_document_on_production() -> None:
    assert [name for name in NAME.findall(RUNBOOK) if name not in PRODUCTION] == []
