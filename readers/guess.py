"""Which format an output is in, and its reading as JSON: what `proving parse` and the import of old results do."""

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
_HEAD = 1 << 16  # bytes; every tool says what it is before
_BOM = b"\xef\xbb\xbf"


def guess(raw: bytes) -> str:
    """The kind of an output, by its content alone. Raises FormatError where no format fits, or several do."""
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
    """(kind, result) of an output, its kind guessed where none is given. Raises FormatError."""
    kind = kind or guess(raw)
    if kind not in FORMATS:
        raise FormatError(kind, "this kind of output is unknown", hint=f"expected one of {', '.join(FORMATS)}")
    return kind, FORMATS[kind].parse(raw)


def as_json(result: Any) -> Any:
    """A result as JSON can carry it: fields that the output does not have are left out, and plain values that a class
    derives from its fields are put in."""
    if is_dataclass(result) and not isinstance(result, type):
        values = {one.name: getattr(result, one.name) for one in fields(result)} | _derived(result)
        return {name: as_json(value) for name, value in values.items() if not _is_empty(value)}
    if isinstance(result, dict):
        return {str(key): as_json(value) for key, value in result.items()}
    if isinstance(result, list | tuple | array | Rows):
        return [as_json(value) for value in result]
    if isinstance(result, Histogram):
        # Its percentiles are fields of their own; the numbers of its buckets are not read.
        return {name: value for name, value in result.as_json().items() if name != "buckets"}
    if isinstance(result, float) and not math.isfinite(result):
        return None  # the last bucket has no end, and JSON no infinity
    return result.isoformat() if isinstance(result, datetime) else result


def _is_empty(value: object) -> bool:
    return value in (None, (), {}) or (isinstance(value, Rows) and not len(value))


def _derived(result: object) -> dict[str, Any]:
    names = [name for name, value in vars(type(result)).items() if isinstance(value, property)]
    values = {name: getattr(result, name) for name in names}
    return {name: value for name, value in values.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    # Views of what the fields hold already would only repeat it.
    if isinstance(value, dict):
        return _is_plain(tuple(value.values()))
    if isinstance(value, tuple):
        return all(isinstance(one, str | int | float) for one in value)
    return isinstance(value, str | int | float)
