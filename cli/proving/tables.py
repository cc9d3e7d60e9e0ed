"""Print responses of the API as tables and text. Their text is never parsed as markup, and controls no terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from common import verdicts
from common.wording import ci_of_mean, signed

# What terminals interpret: control characters except tab and newline, and changes of the direction of text. Lone
# surrogates cannot be encoded.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Return the text with control characters as in JSON: \\u001b. A host chooses some of the texts."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return a table. In a narrow terminal, words wrap and nothing is cut off."""
    columns = (Column(each, overflow="fold") for each in head)
    made = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        made.add_row(*(lines("" if cell is None else str(cell)) for cell in row))
    return made


def lines(*texts: str) -> Text:
    return Text(escaped("\n".join(text for text in texts if text)))


def below(*parts: RenderableType) -> Group:
    return Group(*parts)


def figure(value: float | None) -> str:
    """Return rates as integers, and latencies below a millisecond with enough decimals."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{figure(low)} .. {figure(high)}"


def change(mean: float | None, low: float | None, high: float | None) -> str:
    """ "+2.94 % [+1.2, +4.7]"; figures in percent."""
    if mean is None:
        return ""
    return f"{signed(mean)} %" + ("" if low is None or high is None else f" [{signed(low)}, {signed(high)}]")


def verdict(name: str, preliminary: bool = False) -> str:
    """ "▲ better (preliminary)"; "" without a verdict."""
    if not name:
        return ""
    shown = verdicts.verdict(name)
    return f"{shown.icon} {shown.word} (preliminary)" if preliminary else f"{shown.icon} {shown.word}"


def seconds(value: float | None) -> str:
    """Return "1 h 04 min", "3 min 20 s", "12 s"; "" if it is unknown."""
    if value is None:
        return ""
    whole = round(value)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def progress(counts: Mapping[str, Any]) -> str:
    failed = f", {counts['failed']} failed" if counts["failed"] else ""
    return f"{counts['done']}/{counts['total']} runs{failed}"


def _proven(row: Mapping[str, Any]) -> str:
    return f"{row['proven']} of {row['ok']}" if row["proof_lines"] or not row["ok"] else "no settings"


def results(answer: Mapping[str, Any]) -> RenderableType:
    """Return the results of a campaign: a row per combination of levels, and the sentence."""
    rows = [
        (
            *(row["label"], f"{row['ok']} of {row['planned']}", figure(row["mean"]), interval(row["low"], row["high"])),
            change(row["relative_percent"], row["relative_low"], row["relative_high"]),
            *(verdict(row["verdict"], row["preliminary"]), _proven(row)),
        )
        for row in answer["levels"]
    ]
    against = f"against {answer['baseline']}" if answer["baseline"] else "change"
    metric = f"{answer['metric']}, {answer['unit']}" if answer["unit"].lower() != answer["metric"] else answer["metric"]
    head = ("level", "runs", metric, ci_of_mean(answer.get("within_blocks", False)), against, "verdict", "proven")
    return below(table(head, rows), lines(answer["sentence"]))
