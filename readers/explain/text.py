"""Parse EXPLAIN (FORMAT TEXT) of PostgreSQL 9.0 to 18. Source: ExplainNode() in src/backend/commands/explain.c."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from common.errors import FormatError
from readers.explain.plan import DEEPEST, WHERE, Buffers, Node, Plan, canonical
from readers.text import NUMBER, shown

# Rows and costs are doubles, so they can have many digits.
FIGURE = r"[0-9]{1,40}(?:\.[0-9]{1,15})?"
_COUNT = r"[0-9]{1,18}"

# A terminal can wrap the line at any space, hence ` ?`.
_COST = (
    rf"\(cost=(?P<startup_cost>{FIGURE})\.\.(?P<total_cost>{FIGURE}) ?rows=(?P<plan_rows>{FIGURE}) ?"
    rf"width=(?P<plan_width_bytes>{_COUNT})\)"
)
_ACTUAL = (
    rf"\((?:never executed(?P<never>)|actual "
    rf"(?:time=(?P<actual_startup_ms>{NUMBER})\.\.(?P<actual_total_ms>{NUMBER}) ?)?"
    rf"rows=(?P<actual_rows>{FIGURE}) ?loops=(?P<loops>{_COUNT}))\)"
)
_FIGURES = re.compile(rf"(?:{_COST})? ?(?:{_ACTUAL})?")
_OPENING = re.compile(r" {1,2}\((?:cost=|actual |never )")
_ARROW = "->  "

_NAME = r'(?:"[^"]*"|[^\s"])+'
_LABEL = re.compile(rf"(?P<node_type>.+?)(?: using (?P<index>{_NAME}))?(?: on (?P<relation>{_NAME})(?: {_NAME})?)?")

_LAST_WORD = re.compile(
    r"(?:^| )(?:\w*(?:Aggregate|SetOp)|Append|BitmapAnd|BitmapOr|Delete|Gather|Group|Hash|Insert|Join|Limit|LockRows|"
    r"Loop|Materialize|Memoize|Merge|ProjectSet|Result|Scan|Sort|Union|Unique|Update|WindowAgg)"
    r"(?: Backward|(?: (?:Except|Intersect)(?: All)?)| \([^()]*\))?$"
)
_BUFFERS = re.compile(r"(shared|local|temp)((?: (?:hit|read|dirtied|written)=[0-9]{1,18})+)")
_TIMINGS = re.compile(rf"(?:(?:shared|local|temp|shared/local) )?((?: ?(?:read|write)={NUMBER})+)")
_PAIR = re.compile(r"(\w+)=([0-9.]+)")
_SETTING = re.compile(r"([\w.]{1,100}) = '((?:[^']|'')*)'")
_WAL_BYTES = re.compile(rf"\bbytes=({_COUNT})\b")
_TIME = re.compile(rf"({NUMBER}) ms")
_TIMES = {
    "planning time": "planning_ms",
    "execution time": "execution_ms",
    "total runtime": "total_runtime_ms",
}
_SECTIONS = ("Planning:", "JIT:")
LONGEST_LABEL = 1000
_INTS = ("plan_width_bytes", "loops")


@dataclass
class _Draft:
    """A node whose children have not all been read. `column`: where its label starts."""

    column: int
    fields: dict[str, Any]
    details: list[tuple[str, str]] = field(default_factory=list)
    children: list[_Draft] = field(default_factory=list)

    def node(self) -> Node:
        children = tuple(child.node() for child in self.children)
        return Node(**self.fields, details=tuple(self.details), children=children)


@dataclass
class _Reader:
    """Reads the lines in one pass. `path`: the nodes from the root of the current plan to the last node read."""

    plans: list[Plan] = field(default_factory=list)
    path: list[_Draft] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    section: str = ""  # the section below the nodes: Planning or JIT

    def line(self, line: str, where: str) -> None:
        text = line.lstrip(" ")
        column = len(line) - len(text)
        if text.startswith(_ARROW):
            self._child(text.removeprefix(_ARROW), column + len(_ARROW), where)
        elif not self.path or (_OPENING.search(text) and column <= self.path[0].column):
            self.close()
            self.path = [_Draft(column, _root(text, where))]
        else:
            self._detail(text, column, where)

    def close(self) -> None:
        """Finish the current plan, if there is one."""
        if self.path:
            self.plans.append(Plan(self.path[0].node(), **self.summary))
        self.path, self.summary, self.section = [], {}, ""

    def _child(self, text: str, column: int, where: str) -> None:
        while self.path and self.path[-1].column >= column:
            self.path.pop()
        if not self.path or self.section:
            raise FormatError(where, f"{shown(text)} has no node above it", hint="the plan is cut or edited")
        if len(self.path) >= DEEPEST:
            raise FormatError(where, f"the plan has more than {DEEPEST} levels", hint="it is not a plan")
        draft = _Draft(column, _label_and_figures(text, where))
        self.path[-1].children.append(draft)
        self.path.append(draft)

    def _detail(self, text: str, column: int, where: str) -> None:
        key, _, value = text.partition(":")
        value = value.strip()
        node = self.path[-1]
        if key.lower() in _TIMES:
            self.summary[_TIMES[key.lower()]] = _milliseconds(value, where)
        elif key == "Settings":
            self.summary["settings"] = tuple(
                (name, quoted.replace("''", "'")) for name, quoted in _SETTING.findall(value)
            )
        elif text in _SECTIONS:
            self.section = text
        elif key == "Buffers" and self.section == "Planning:":
            self.summary["planning_buffers"] = _buffers(value, where)
        elif column == node.column + 2 and not self.section:
            # Lines indented further belong to parallel workers. The node's own figures include them.
            self._of_node(node, key, value, where)

    def _of_node(self, node: _Draft, key: str, value: str, where: str) -> None:
        if key == "Buffers":
            node.fields["buffers"] = _buffers(value, where)
        elif key == "I/O Timings":
            node.fields |= _timings(value, where)
        elif key == "WAL":
            match = _WAL_BYTES.search(value)
            node.fields["wal_bytes"] = int(match[1]) if match else 0
        else:
            node.details.append((canonical(key), value))


def parse_text(lines: list[str], first: int) -> tuple[Plan, ...]:
    """Parse the plans in `lines`. `first`: number of the first line, for error messages. Raises FormatError."""
    reader = _Reader()
    for number, line in _joined(lines, first):
        if line.strip():
            reader.line(line, f"{WHERE}, line {number}")
    reader.close()
    return tuple(reader.plans)


def _joined(lines: list[str], first: int) -> Iterator[tuple[int, str]]:
    """Yield each line with its number. Figures of a node that the terminal wrapped are joined again."""
    number = 0
    while number < len(lines):
        start, line = number, _uncommented(lines[number].rstrip())
        number += 1
        opening = _OPENING.search(line)
        while opening and line.count("(", opening.start()) > line.count(")", opening.start()) and number < len(lines):
            line += _uncommented(lines[number].strip())
            number += 1
            if number - start > 4:
                break
        yield first + start, line


# Comments that users write after figures: "(... loops=1)  <-- slow", "Execution Time: 12.3 ms  -- before".
_FIGURES_END = re.compile(
    r"(?:(?:width|loops)=[0-9]{1,18}\)|never executed\)|[0-9] ms|(?:hit|read|dirtied|written|fpi|bytes)=[0-9.]{1,40})"
    r" {1,200}(?:--|<-|#|//|/\*)"
)
_MARK = re.compile(r" +(?:--|<-|#|//|/\*)")


def _uncommented(line: str) -> str:
    """Return a line without the comment after its figures."""
    ends = list(_FIGURES_END.finditer(line))
    if not ends:
        return line
    mark = _MARK.search(line, ends[-1].start())
    return line[: mark.start()] if mark else line


def _root(text: str, where: str) -> dict[str, Any]:
    fields = _label_and_figures(text, where)
    # With COSTS OFF a line has no figures, so its name must show that it is a node.
    if "total_cost" in fields or "loops" in fields or _LAST_WORD.search(fields["node_type"]):
        return fields
    raise FormatError(where, f"{shown(text)} is not a plan node", hint="give the output of EXPLAIN")


def _label_and_figures(text: str, where: str) -> dict[str, Any]:
    opening = _OPENING.search(text)
    label, rest = (text[: opening.start()], text[opening.start() :].strip()) if opening else (text, "")
    figures, named = _FIGURES.fullmatch(rest), _LABEL.fullmatch(label.strip()[:LONGEST_LABEL])
    if figures is None or named is None:
        raise FormatError(where, f"cannot read the node {shown(text)}", hint="the plan is cut, edited or localised")
    groups = figures.groupdict()
    fields: dict[str, Any] = {"loops": 0} if groups.pop("never") is not None else {}
    fields |= {name: _figure(name, figure) for name, figure in groups.items() if figure is not None}
    return fields | _names(label.strip(), named)


def _figure(name: str, text: str) -> float | int:
    return int(text) if name in _INTS else float(text)


def _names(label: str, named: re.Match[str]) -> dict[str, Any]:
    names = {name: text for name, text in named.groupdict().items() if text is not None}
    if names["node_type"].endswith("Bitmap Index Scan"):
        names["index"] = names.pop("relation", "")
    return {"label": label[:LONGEST_LABEL], **names}


def _buffers(text: str, where: str) -> Buffers:
    counts: dict[str, int] = {}
    for part in text.split(", "):
        match = _BUFFERS.fullmatch(part)
        if match is None:
            raise FormatError(where, f"cannot read the buffers {shown(text)}", hint="the plan is cut or edited")
        counts |= {f"{match[1]}_{what}": int(count) for what, count in _PAIR.findall(match[2])}
    counts.pop("temp_hit", None)
    counts.pop("temp_dirtied", None)
    return Buffers(**counts)


def _timings(text: str, where: str) -> dict[str, float]:
    totals: dict[str, float] = {}
    for part in text.split(", "):
        match = _TIMINGS.fullmatch(part)
        if match is None:
            raise FormatError(where, f"cannot read the I/O timings {shown(text)}", hint="the plan is cut or edited")
        for what, ms in _PAIR.findall(match[1]):
            totals[f"io_{what}_ms"] = totals.get(f"io_{what}_ms", 0.0) + float(ms)
    return totals


def _milliseconds(text: str, where: str) -> float:
    match = _TIME.fullmatch(text)
    if match is None:
        raise FormatError(where, f"{shown(text)} is not a time", hint='expected a number and "ms"')
    return float(match[1])
