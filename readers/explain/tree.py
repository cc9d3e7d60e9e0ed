"""Parse EXPLAIN (FORMAT JSON, YAML or XML) of PostgreSQL 9.0 to 18. All three have the same content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn
from xml.parsers import expat

from common.errors import FormatError
from readers.explain.plan import DEEPEST, MOST_NODES, WHERE, Buffers, Node, Plan, canonical
from readers.text import shown

Object = Mapping[str, Any]

_NUMERAL = re.compile(r"[0-9]{1,40}(?:\.[0-9]{1,15})?")
_SPACE = re.compile(r"\s*")
_LARGEST = 1e40
_SETTINGS = "settings"
# Properties that become fields of Node, or that its label contains.
_READ = {
    "node_type", "plans", "parent_relationship", "parallel_aware", "async_capable", "strategy", "partial_mode",
    "operation", "join_type", "scan_direction", "index_name", "relation_name", "schema", "alias", "cte_name",
    "function_name", "table_function_name", "tuplestore_name", "subplan_name", "custom_plan_provider", "command",
    "startup_cost", "total_cost", "plan_rows", "plan_width", "actual_startup_time", "actual_total_time",
    "actual_rows", "actual_loops", "wal_bytes",
}  # fmt: skip


def parse_json(text: str, where: str) -> tuple[Plan, ...]:
    """Parse the plans in one JSON document or several consecutive ones. Raises FormatError."""
    decoder = json.JSONDecoder(parse_constant=_constant)
    documents, at = [], 0
    while at < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise FormatError(where, "the output is nested too deeply", hint="it is not EXPLAIN's JSON") from None
        except ValueError as error:
            raise FormatError(where, f"the JSON is cut or damaged: {error}", hint="give the complete output") from None
        documents += document if isinstance(document, list) else [document]
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return _plans(documents, where)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a figure")


def parse_xml(text: str, where: str) -> tuple[Plan, ...]:
    """Parse the plans in one or several <explain> elements. Raises FormatError; document types, and so entities, are
    refused."""
    documents: list[Any] = []
    start = text.find("<explain")
    while start >= 0:
        end = text.find("</explain>", start)
        if end < 0:
            raise FormatError(where, "an <explain> is not closed", hint="the output is cut")
        documents += _Xml(where).read(text[start : end + len("</explain>")])
        start = text.find("<explain", end)
    return _plans(documents, where)


class _Xml:
    """Converts elements to objects, or to lists if all children of an element have the same kind."""

    lists = {"explain", "Plans", "Output", "Triggers", "Workers", "Group-Key", "Sort-Key"}

    def __init__(self, where: str) -> None:
        self.where = where
        self.open: list[tuple[str, list[tuple[str, Any]]]] = [("", [])]
        self.characters: list[str] = []

    def read(self, text: str) -> list[Any]:
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = self._text, self._doctype
        parser.buffer_text = True
        try:
            parser.Parse(text.encode(), True)
        except expat.ExpatError as error:
            raise FormatError(self.where, f"the XML is damaged: {error}", hint="give the complete output") from None
        root = self.open[0][1][0][1]
        return root if isinstance(root, list) else [root]

    def _start(self, tag: str, _: dict[str, str]) -> None:
        if len(self.open) > 2 * DEEPEST:
            raise FormatError(self.where, "the output is nested too deeply", hint="it is not EXPLAIN's XML")
        self.open.append((tag, []))
        self.characters = []

    def _end(self, tag: str) -> None:
        _, children = self.open.pop()
        value: Any = "".join(self.characters).strip()
        if children:
            value = [child for _, child in children] if _is_list(tag, children) else dict(children)
        self.open[-1][1].append((tag, value))
        self.characters = []

    def _text(self, data: str) -> None:
        self.characters.append(data)

    def _doctype(self, *_: Any) -> None:
        raise FormatError(self.where, "the XML has a document type", hint="EXPLAIN writes none")


def _is_list(tag: str, children: list[tuple[str, Any]]) -> bool:
    return tag in _Xml.lists or all(child == "Item" for child, _ in children)


_YAML_LINE = re.compile(r"(?P<indent> *)(?P<dash>- )?(?:(?P<key>[\w/.][^:\"]{0,100}):(?: |$))?(?P<value>.*)")


@dataclass
class _Block:
    """A YAML mapping that starts at `column`. `key`: its last key, to which more deeply indented lines belong."""

    column: int
    values: dict[str, Any] = field(default_factory=dict)
    key: str = ""


def parse_yaml(lines: list[str], first: int) -> tuple[Plan, ...]:
    """Parse the plans in EXPLAIN's YAML. Raises FormatError with the number of the line.

    EXPLAIN uses a small part of YAML: blocks, and scalars that are numbers, words or JSON strings."""
    documents: list[Any] = []
    open_blocks: list[_Block] = []
    for number, line in enumerate(lines, first):
        if line.strip():
            _yaml_line(line.rstrip(), documents, open_blocks, f"{WHERE}, line {number}")
    return _plans(documents, f"{WHERE}, line {first}")


def _yaml_line(line: str, documents: list[Any], blocks: list[_Block], where: str) -> None:
    match = _YAML_LINE.fullmatch(line)
    if match is None or not (match["key"] or match["dash"]) or len(blocks) > 2 * DEEPEST:
        raise FormatError(where, f"cannot read {shown(line)}", hint="expected a key and a value of EXPLAIN's YAML")
    indent, key, value = len(match["indent"]), match["key"], match["value"]
    column = indent + 2 if match["dash"] else indent
    while blocks and blocks[-1].column > (indent - 1 if match["dash"] else indent):
        blocks.pop()
    if match["dash"]:
        items = _list_under(blocks[-1], where) if blocks else documents
        items.append({} if key else _yaml_scalar(value, where))
        if key:
            blocks.append(_Block(column, items[-1]))
    elif not blocks:
        blocks.append(_Block(column))
        documents.append(blocks[-1].values)
    elif blocks[-1].column < column:
        blocks.append(_Block(column, _mapping_under(blocks[-1], where)))
    if key:
        blocks[-1].key = key
        blocks[-1].values[key] = _yaml_scalar(value, where)


def _list_under(block: _Block, where: str) -> list[Any]:
    if block.values[block.key] is None:
        block.values[block.key] = []
    entries = block.values[block.key]
    if not isinstance(entries, list):
        raise FormatError(where, f"an item does not belong below {shown(block.key)}", hint="the output is edited")
    return entries


def _mapping_under(block: _Block, where: str) -> dict[str, Any]:
    if block.values[block.key] is not None:
        raise FormatError(where, f"a key does not belong below {shown(block.key)}", hint="the output is edited")
    mapping: dict[str, Any] = {}
    block.values[block.key] = mapping
    return mapping


def _yaml_scalar(text: str, where: str) -> str | None:
    text = text.strip()
    if not text.startswith('"'):
        return text or None
    try:
        return str(json.loads(text))
    except ValueError:
        raise FormatError(
            where, f"{shown(text)} is not a complete string", hint="the output is cut or edited"
        ) from None


def _plans(documents: list[Any], where: str) -> tuple[Plan, ...]:
    if not documents:
        raise FormatError(where, "the output contains no plan", hint="give the output of EXPLAIN")
    return tuple(_plan(_canonical(document, where), f"{where}, plan {n}") for n, document in enumerate(documents, 1))


def _plan(document: Object, where: str) -> Plan:
    if not document.get("plan"):
        raise FormatError(where, "it has no Plan", hint="give the output of EXPLAIN")
    settings = document.get(_SETTINGS) or {}
    planning = document.get("planning")
    counted = iter(range(MOST_NODES))
    return Plan(
        root=_node(_canonical(document["plan"], where), where, 0, counted),
        planning_ms=_number(document, "planning_time", where),
        execution_ms=_number(document, "execution_time", where),
        total_runtime_ms=_number(document, "total_runtime", where),
        planning_buffers=_buffers(_canonical(planning, where), where) if planning else None,
        settings=tuple((name, str(value)) for name, value in settings.items()) if isinstance(settings, dict) else (),
    )


def _canonical(value: Any, where: str) -> Object:
    """Return an object with canonical keys: lower case, with underscores."""
    if not isinstance(value, dict):
        raise FormatError(where, f"{shown(str(value)[:200])} is in the place of a plan", hint="it is not EXPLAIN's")
    return {canonical(key): entry for key, entry in value.items()}


def _node(node: Object, where: str, depth: int, counted: Iterator[int]) -> Node:
    if depth >= DEEPEST or next(counted, None) is None:
        raise FormatError(where, f"the plan has over {DEEPEST} levels or {MOST_NODES} nodes", hint="it is not a plan")
    children = node.get("plans") or []
    if not isinstance(children, list):
        raise FormatError(where, "Plans is not a list", hint="it is not EXPLAIN's")
    node_type = node.get("node_type")
    if not isinstance(node_type, str):
        raise FormatError(where, "a node has no Node Type", hint="it is not EXPLAIN's")
    return Node(
        label=label_of(node),
        node_type=node_type,
        relation=_text(node, "relation_name"),
        index=_text(node, "index_name"),
        **_figures(node, where),
        io_read_ms=_io(node, "read", where),
        io_write_ms=_io(node, "write", where),
        buffers=_buffers(node, where),
        details=tuple(_details(node)),
        children=tuple(_node(_canonical(child, where), where, depth + 1, counted) for child in children),
    )


_FIGURES = {
    "startup_cost": "startup_cost",
    "total_cost": "total_cost",
    "plan_rows": "plan_rows",
    "actual_startup_ms": "actual_startup_time",
    "actual_total_ms": "actual_total_time",
    "actual_rows": "actual_rows",
}
_COUNTS = {"plan_width_bytes": "plan_width", "loops": "actual_loops", "wal_bytes": "wal_bytes"}


def _figures(node: Object, where: str) -> dict[str, Any]:
    figures: dict[str, Any] = {name: _number(node, key, where) for name, key in _FIGURES.items()}
    return figures | {name: _whole(node, key, where) for name, key in _COUNTS.items()}


def _number(of: Object, key: str, where: str) -> float | None:
    value = of.get(key)
    if value is None:
        return None
    if isinstance(value, str) and _NUMERAL.fullmatch(value):
        value = float(value)
    # bool is an int to Python, not to PostgreSQL.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise FormatError(where, f"{key} is {shown(str(value)[:200])}", hint="expected a number of at least 0")
    return float(value)


def _whole(of: Object, key: str, where: str) -> int | None:
    value = _number(of, key, where)
    return None if value is None else int(value)


def _text(of: Object, key: str) -> str | None:
    value = of.get(key)
    return value if isinstance(value, str) else None


def _io(node: Object, what: str, where: str) -> float | None:
    """Return the I/O time in ms over all kinds of blocks. PostgreSQL 17 and later split it into shared, local and
    temp, 15 and 16 only into shared and temp."""
    keys = [key for key in node if key.endswith(f"i_o_{what}_time")]
    return sum(_number(node, key, where) or 0.0 for key in keys) if keys else None


def _buffers(node: Object, where: str) -> Buffers | None:
    counts = {one.name: _whole(node, f"{one.name}_blocks", where) for one in fields(Buffers)}
    known = {name: count for name, count in counts.items() if count is not None}
    return Buffers(**known) if known else None


def _details(node: Object) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if key not in _READ and not key.endswith(("_blocks", "_time")):
            detail = ", ".join(map(str, value)) if isinstance(value, list) else value
            if isinstance(detail, str | int | float):
                yield key, str(detail)


def label_of(node: Object) -> str:
    """Return the name of this node in the text format, so that equal plans have equal shapes in every format."""
    name = _type_of(node)
    if str(node.get("parallel_aware")).lower() == "true":
        name = f"Parallel {name}"
    if str(node.get("async_capable")).lower() == "true":
        name = f"Async {name}"
    if node.get("scan_direction") == "Backward":
        name += " Backward"
    index = _text(node, "index_name")
    if index and name.endswith("Bitmap Index Scan"):
        return f"{name} on {index}"
    return name + (f" using {index}" if index else "") + _target(node)


def _type_of(node: Object) -> str:
    kind = str(node["node_type"])
    partial = _text(node, "partial_mode")
    if kind == "Aggregate":
        kind = _AGGREGATES.get(str(node.get("strategy")), kind)
        return kind if partial in (None, "Simple") else f"{partial} {kind}"
    if kind == "ModifyTable":
        return _text(node, "operation") or kind
    if kind == "SetOp":
        kind = "HashSetOp" if node.get("strategy") == "Hashed" else kind
        return f"{kind} {node.get('command', '')}".rstrip()
    if kind == "Custom Scan":
        return f"Custom Scan ({node.get('custom_plan_provider', '')})"
    if kind == "Foreign Scan" and (_text(node, "operation") or "Select") != "Select":
        return f"Foreign {node['operation']}"
    return _joined(kind, _text(node, "join_type"))


_AGGREGATES = {"Plain": "Aggregate", "Sorted": "GroupAggregate", "Hashed": "HashAggregate", "Mixed": "MixedAggregate"}


def _joined(kind: str, join_type: str | None) -> str:
    if join_type is None:
        return kind
    joins = {"Nested Loop": "Nested Loop", "Merge Join": "Merge", "Hash Join": "Hash"}
    if join_type == "Inner" or kind not in joins:
        return kind
    return f"{joins[kind]} {join_type} Join"


def _target(node: Object) -> str:
    names = ("relation_name", "function_name", "cte_name", "table_function_name", "tuplestore_name")
    name = next((text for key in names if (text := _text(node, key))), None)
    schema, alias = _text(node, "schema"), _text(node, "alias")
    if name is None:
        return f" on {_quoted(alias)}" if alias else ""
    whole = f"{_quoted(schema)}.{_quoted(name)}" if schema else _quoted(name)
    return f" on {whole}" + (f" {_quoted(alias)}" if alias and alias != name else "")


_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")


def _quoted(name: str | None) -> str:
    """Return an identifier as EXPLAIN's text format writes it. Reserved words are not recognised and stay unquoted."""
    if not name or _PLAIN.fullmatch(name):
        return name or ""
    return '"' + name.replace('"', '""') + '"'
