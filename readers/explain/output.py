"""Parse the output of EXPLAIN (PostgreSQL 9.0 to 18): text, JSON, YAML or XML, with or without psql's frame, one
plan or several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from common.errors import FormatError
from readers.explain.plan import WHERE, Explain, Plan
from readers.explain.text import parse_text
from readers.explain.tree import parse_json, parse_xml, parse_yaml
from readers.text import NUMBER, is_unfinished, lines_of

_RULER = re.compile(r"-*\s*")
_ROWS = re.compile(r"\([0-9]{1,9} rows?\)\s*")
# The last line of a complete plan in each format. JSON and XML are only read if they are complete.
_WHOLE = re.compile(
    rf"(?:Execution Time|Total runtime): {NUMBER} ms$|\([0-9]{{1,9}} rows?\)$|[\[{{<]|.*(?:[\]}}]|</explain>)$"
)
# A last line without a newline that still has all its digits: it ends in a closed parenthesis or a unit, or has no
# figures.
_READABLE = re.compile(r".*(?:\)| ms)$|(?:->  )?[A-Z][^:(]*$")
_ERROR = re.compile(r"(?:psql:[^\n]{0,300}?: )?(?:ERROR|FATAL|PANIC):  (?P<message>.+)")


@dataclass(frozen=True)
class PsqlError:
    """The error that psql printed in place of a result."""

    error: str
    lines: tuple[str, ...]


def parse_explain(raw: bytes) -> Explain:
    """Parse all plans in an output.

    Raises FormatError if there is none, if JSON or XML is incomplete, or if psql printed an error."""
    lines, cut = _believed(raw)
    error = next((match for match in map(_ERROR.match, lines) if match), None)
    if error:
        raise FormatError(
            WHERE, f"EXPLAIN failed: {error['message'].strip()[:300]}", hint="give the complete output of EXPLAIN"
        )
    read = [_read(first, block) for first, block in _blocks(lines)]
    plans = [plan for _, block_plans in read for plan in block_plans]
    if not plans:
        raise FormatError(WHERE, "the output contains no plan", hint="give the output of EXPLAIN")
    return Explain(read[0][0], tuple(plans), cut)


def _believed(raw: bytes) -> tuple[list[str], bool]:
    """Return the lines that can be read, and whether the output may be incomplete. A last line that may have lost
    digits is left out."""
    lines = lines_of(raw, WHERE)
    if not is_unfinished(raw) or _WHOLE.match(lines[-1].strip()):
        return lines, False
    return (lines if _READABLE.match(lines[-1].strip()) else lines[:-1]), True


def parse_psql_error(raw: bytes) -> PsqlError:
    """Return the first error that psql printed. Raises FormatError if there is none."""
    lines = [line.rstrip() for line in lines_of(raw, "psql") if line.strip()]
    match = next((match for match in map(_ERROR.match, lines) if match), None)
    if match is None:
        raise FormatError("psql", "the output contains no error", hint='expected a line that begins with "ERROR:"')
    return PsqlError(match["message"].strip(), tuple(lines))


def _read(first: int, block: list[str]) -> tuple[str, tuple[Plan, ...]]:
    """Parse one result that starts at line `first`. Returns its format and its plans."""
    head = next((line.strip() for line in block if line.strip()), "")
    where = f"{WHERE}, line {first}"
    if head.startswith(("[", "{")):
        return "json", parse_json("\n".join(block).strip(), where)
    if head.startswith("<"):
        return "xml", parse_xml("\n".join(block), where)
    if head.startswith(("- Plan:", "- Query Text:", "Plan:", "Query Text:")):
        return "yaml", parse_yaml(block, first)
    return "text", parse_text(block, first)


def _blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield each result as (number of its first line, lines). psql frames a result by a heading and a row count;
    without a heading, all lines are one result."""
    heads = [number for number, line in enumerate(lines) if line.strip() == "QUERY PLAN"]
    for head in heads:
        start = head + 1
        # Heading and ruler wrap on a narrow terminal, so each may take several lines.
        while start < len(lines) and _RULER.fullmatch(lines[start]):
            start += 1
        end = next((n for n in range(start, len(lines)) if _ROWS.fullmatch(lines[n])), len(lines))
        yield start + 1, [_unframed(line) for line in lines[start:end]]
    if not heads:
        yield 1, lines


def _unframed(line: str) -> str:
    """Return a line of psql's table as the server sent it. psql ends every line of a value except the last with "+"."""
    return line.rstrip().removesuffix("+").rstrip().removeprefix(" ")
