"""The table of docs/background/statistics.md, generated from the published results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.truth import GROUPS
from tests.truth.conservative import CONSERVATIVE
from tests.truth.scenario import Measured, Scenario, Share, read_measured

ROOT = Path(__file__).resolve().parents[2]
MEASURED = Path(__file__).with_name("measured.json")
DOCUMENT = ROOT / "docs" / "background" / "statistics.md"
BEGIN, END = "<!-- made by python -m tests.truth -->\n", "<!-- end of what it made -->\n"
HEAD = "| scenario | campaigns | false alarms | covers | found | found as advised |\n|---|---|---|---|---|---|\n"


def read() -> dict[str, Measured]:
    """Scenario -> its newest results."""
    data = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    return {name: read_measured(fields) for name, fields in data.items()}


def write(measured: Mapping[str, Measured]) -> None:
    """Store the results, one scenario per line, and update the table of the document."""
    known = [scenario.name for group in GROUPS.values() for scenario in group]
    lines = [f"  {json.dumps(name)}: {json.dumps(measured[name].as_dict())}" for name in known if name in measured]
    MEASURED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    DOCUMENT.write_text(document(DOCUMENT.read_text(), measured))


def document(text: str, measured: Mapping[str, Measured]) -> str:
    """The text with its table between the two marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(measured)}\n{END}{after}"


def table(measured: Mapping[str, Measured]) -> str:
    """Every group with a row for each scenario that was measured; shares in percent with one standard error."""
    rows = []
    for title, scenarios in GROUPS.items():
        rows.append(f"| **{title}** | | | | | |\n")
        rows += [row(scenario, measured[scenario.name]) for scenario in scenarios if scenario.name in measured]
    return HEAD + "".join(rows)


def row(scenario: Scenario, measured: Measured) -> str:
    cells = [_cell(share) for share in (measured.false, measured.covers, measured.finds, measured.advice)]
    cells[1] += ", conservative" if scenario.name in CONSERVATIVE else ""
    return f"| {scenario.name} | {measured.campaigns} | " + " | ".join(cells) + " |\n"


def _cell(share: Share | None) -> str:
    return f"{100 * share.share:.1f} ± {100 * share.error:.1f} %" if share else ""
