"""What the command line and `make demo` print of an answer."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from embedded.demo import campaign
from proving import tables

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
