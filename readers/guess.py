"""Recognise the format of an output and convert it to JSON, for `proving parse` and imports of old results."""

from __future__ import annotations

import math
from array import array
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from agents.wire.histogram import Histogram
from common.errors import FormatError
from readers.formats import FORMATS
from readers.text import Rows

WHERE = "this output"
_HEAD = 1 << 16  # bytes; every tool can be recognised within them
_BOM = b"\xef\xbb\xbf"


def guess(raw: bytes) -> str:
    """Return the kind of an output, by its content only. Raises FormatError if no format matches, or if several do."""
    head = raw[:_HEAD].removeprefix(_BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not head.strip():
        raise FormatError(WHERE, "the file is empty", hint="the tool printed nothing, or wrote to another file")
    fitting = [kind for kind, one in FORMATS.items() if one.recognises(head)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise FormatError(WHERE, f"the output may be {' or '.join(fitting)}", hint=f"choose one: {', '.join(fitting)}")
    raise FormatError(WHERE, "the output matches no known tool", hint=f"choose its kind: {', '.join(FORMATS)}")


def read(raw: bytes, kind: str = "") -> tuple[str, object]:
    """Return (kind, result) of an output. An empty `kind` is guessed. Raises FormatError."""
    kind = kind or guess(raw)
    if kind not in FORMATS:
        raise FormatError(kind, "this kind of output is unknown", hint=f"expected one of {', '.join(FORMATS)}")
    return kind, FORMATS[kind].parse(raw)


def as_json(result: Any) -> Any:
    """Return a result as JSON values: without fields that the output lacks, with simple properties that its class
    derives."""
    if is_dataclass(result) and not isinstance(result, type):
        values = {field.name: getattr(result, field.name) for field in fields(result)} | _derived(result)
        return {name: as_json(value) for name, value in values.items() if not _is_empty(value)}
    if isinstance(result, dict):
        return {str(key): as_json(value) for key, value in result.items()}
    if isinstance(result, list | tuple | array | Rows):
        return [as_json(value) for value in result]
    if isinstance(result, Histogram):
        # Its percentiles are fields already, and the bin numbers are of no use.
        return {name: value for name, value in result.as_json().items() if name != "buckets"}
    if isinstance(result, float) and not math.isfinite(result):
        return None  # The last bucket has no upper limit, and JSON has no infinity.
    return result.isoformat() if isinstance(result, datetime) else result


def _is_empty(value: object) -> bool:
    return value in (None, (), {}) or (isinstance(value, Rows) and not len(value))


def _derived(result: object) -> dict[str, Any]:
    names = [name for name, value in vars(type(result)).items() if isinstance(value, property)]
    values = {name: getattr(result, name) for name in names}
    return {name: value for name, value in values.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    # Tuples and mappings of dataclasses would repeat what the fields contain.
    if isinstance(value, dict):
        return _is_plain(tuple(value.values()))
    if isinstance(value, tuple):
        return all(isinstance(one, str | int | float) for one in value)
    return isinstance(value, str | int | float)
