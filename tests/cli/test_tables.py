"""What the command line and `make demo` print of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from embedded.demo import campaign
from proving import tables
from proving.errors import CliError
from proving.session import Session

LEVEL: dict[str, Any] = {
    "label": "as it is",
    "ok": 3,
    "planned": 3,
    "mean": 80.2,
    "low": None,
    "high": None,
    "verdict": "",
    "relative_percent": None,
    "relative_low": None,
    "relative_high": None,
    "preliminary": False,
}


def answer(**proof: Any) -> dict[str, Any]:
    table = {"metric": "tps", "unit": "1/s", "baseline": "as it is", "sentence": "No comparison can be made."}
    return {**table, "levels": [LEVEL | proof]}


def printed(table: dict[str, Any]) -> list[str]:
    console = Console(width=120)
    with console.capture() as text:
        console.print(tables.results(table))
    return [text.get(), campaign.report(table)]


def test_runs_without_settings_are_not_called_unproven() -> None:
    for text in printed(answer(proven=0, proof_lines=[])):
        assert "no settings" in text
        assert "0 of 3" not in text
        assert "found on the host" not in text


def test_the_number_of_proven_runs_is_shown() -> None:
    for text in printed(answer(proven=2, proof_lines=["postgresql autovacuum: off"])):
        assert "2 of 3" in text


def test_a_narrow_terminal_cuts_off_no_word() -> None:
    head = ["figure", "old", "ci", "n", "new", "ci", "n", "change", "verdict"]
    values = ["latency_avg_ms", "9.9", "9.9 .. 9.9", "3", "10.1", "10.1 .. 10.1", "3", "+2.02 % [+1.9, +2.1]"]
    console = Console(width=80)
    with console.capture() as text:
        console.print(tables.table(head, [[*values, "▼ worse (preliminary)"]]))

    assert "…" not in text.get()
    assert "".join(line[:12].split("  ")[0].strip() for line in text.get().splitlines()).endswith("latency_avg_ms")


# Clear the screen, set the title, 8-bit CSI, reverse the direction, back to the start of the line, a lone surrogate.
HOSTILE = "db1\x1b[2J\x1b]0;ready\x07\x9b31m\u202ekcab\u2066\r\ud800[/bold]"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_text_of_a_host_does_not_control_the_terminal(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    session = Session()
    session.json = as_json

    session.tell([{"name": HOSTILE}], lambda: tables.below(tables.table(["name"], [[HOSTILE]]), tables.lines(HOSTILE)))
    session.complain(CliError(HOSTILE, accepted=HOSTILE))

    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert "db1\\u001b[2J" in text
        assert all(each.isprintable() for each in text.splitlines())


def test_json_keeps_each_character(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    session.json = True

    session.tell({"name": HOSTILE + "größe\n"}, lambda: "")

    text = capsys.readouterr().out
    assert json.loads(text) == {"name": HOSTILE + "größe\n"}
    assert "größe" in text
