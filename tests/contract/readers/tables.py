"""Tables of runs that users recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readers.others.huge_page_csv import parse_huge_page_csv


def huge_page_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_huge_page_csv(raw)
    rows = [
        asdict(cell)
        | {
            "pg_cache": cell.shared_buffers,
            "pg_cache_kib": cell.shared_buffers_kib,
            "finish": cell.finished_at.isoformat(),
        }
        for cell in parsed.cells
    ]
    not_rows = [
        {"line": one.line, "why": one.why, "finish": one.finished_at.isoformat()} for one in parsed.not_measured
    ]
    return {"header_ok": True, "rows": rows, "not_rows": not_rows, "incomplete": parsed.missing}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {"csv_document001": huge_page_values}
