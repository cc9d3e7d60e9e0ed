"""Parse a manifest, in CSV or YAML, that describes the other files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import yaml

from apps.documents import read_yaml
from apps.results.imports.file_names import BLOCK
from apps.results.imports.files import File
from common.errors import FormatError
from common.wording import on_off
from readers.table import decode, moment, plain, read_table

NAMES = ("manifest.csv", "manifest.yaml", "manifest.yml")
LARGEST = 8 * 1024**2
OUTCOMES = ("ok", "failed", "cancelled", "interrupted", "not_in_effect")
_FIELDS = ("file", "stderr", "kind", "host", "profile", "step", "started", "time", "outcome", "error")
# Fields of the whole campaign, in YAML.
_ABOUT = ("name", "question", "host", "metric", "delta", "columns", "order")


@dataclass(frozen=True)
class ManifestEntry:
    """One output, or one table, and what the manifest states about its run; "" and None if missing."""

    file: str = ""
    stderr: str = ""
    kind: str = ""
    levels: Mapping[str, str] = field(default_factory=dict)
    block: int | None = None
    step: str = ""
    host: str = ""
    profile: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    outcome: str = ""
    error: str = ""


@dataclass(frozen=True)
class Manifest:
    path: str
    entries: tuple[ManifestEntry, ...]
    about: Mapping[str, Any]


def find(files: Sequence[File]) -> Manifest | None:
    """Return the manifest among the files, if there is one. FormatError names the invalid line or entry."""
    manifests = [file for file in files if file.path.lower() in NAMES]
    if len(manifests) > 1:
        raise FormatError(manifests[1].path, f"{manifests[0].path} is also a manifest", hint="keep one of them")
    return read_manifest(manifests[0]) if manifests else None


def read_manifest(file: File) -> Manifest:
    if len(file.content) > LARGEST:
        raise FormatError(file.path, f"{len(file.content)} bytes; the maximum is {LARGEST}", hint="import in parts")
    if file.path.lower().endswith(".csv"):
        table = read_table(file.content, file.path)
        rows = [(f"{file.path}, line {row.line}", dict(zip(table.head, row.cells, strict=False))) for row in table.rows]
        return Manifest(file.path, tuple(_entry(where, _flat(row)) for where, row in rows), {})
    return _read_yaml(file)


def _read_yaml(file: File) -> Manifest:
    text = decode(file.content, file.path)
    try:
        document = read_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise FormatError(file.path, f"not valid YAML: {str(error)[:300]}", hint="files: [{file: a.out}]") from error
    about = document if isinstance(document, dict) else {}
    listed = about.get("files") if about else document
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        hint = "files: [{file: a.out, levels: {policy: default}, block: 1}]"
        raise FormatError(file.path, "it lists no files", hint=hint)
    unknown = sorted(str(key) for key in about.keys() - {*_ABOUT, "files"})
    if unknown:
        raise FormatError(
            f"{file.path}, {unknown[0]}", "is not a known key", hint=f"accepted: files, {', '.join(_ABOUT)}"
        )
    entries = [_entry(f"{file.path}, files[{place}]", _listed(file.path, each)) for place, each in enumerate(listed)]
    return Manifest(file.path, tuple(entries), {key: about[key] for key in _ABOUT if key in about})


def _flat(row: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of a CSV, in which every unknown column is a factor."""
    cells = {name: plain(cell) for name, cell in row.items() if cell}
    fields = {name: cell for name, cell in cells.items() if name in (*_FIELDS, *BLOCK)}
    return {**fields, "levels": {name: cell for name, cell in cells.items() if name not in fields}}


def _listed(path: str, entry: Mapping[Any, Any]) -> dict[str, Any]:
    unknown = sorted(str(key) for key in entry.keys() - {*_FIELDS, *BLOCK, "levels"})
    if unknown:
        hint = f"accepted: {', '.join(_FIELDS)}, block, levels"
        raise FormatError(f"{path}, {unknown[0]}", "is not a known key of a file", hint=hint)
    levels = entry.get("levels") or {}
    if not isinstance(levels, dict):
        raise FormatError(f"{path}, levels", f"{levels!r} is not a mapping", hint="levels: {policy: default}")
    return {**entry, "levels": {str(name): _text(value) for name, value in levels.items()}}


def _entry(where: str, row: Mapping[str, Any]) -> ManifestEntry:
    fields: dict[str, Any] = {name: _text(row[name]) for name in _FIELDS if row.get(name) not in (None, "")}
    if "file" not in fields and not ("kind" in fields and fields.get("outcome", "ok") != "ok"):
        hint = "its path inside the zip; only an unsuccessful run may have none, with kind and outcome"
        raise FormatError(where, "no file name given", hint=hint)
    if fields.get("outcome", "ok") not in OUTCOMES:
        raise FormatError(where, f"{fields['outcome']!r} is not an outcome", hint=f"one of {', '.join(OUTCOMES)}")
    times = {name: fields.pop(name, "") for name in ("started", "time")}
    read: dict[str, Any] = {name: moment(text, f"{where}, {name}") if text else None for name, text in times.items()}
    return ManifestEntry(
        **fields, started=read["started"], ended=read["time"], levels=row["levels"], block=_block(where, row)
    )


def _block(where: str, row: Mapping[str, Any]) -> int | None:
    text = next((_text(row[name]) for name in BLOCK if row.get(name) not in (None, "")), "")
    return block(text, where) if text else None


def block(text: str, where: str) -> int:
    """Parse a repetition. Raises FormatError if it is not a number."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise FormatError(where, f"{text[:40]!r} is not a repetition", hint="accepted: a whole number such as 1")
    return int(text)


def _text(value: Any) -> str:
    """Return a value as text. YAML reads on and off as booleans, and times as times."""
    return value.isoformat() if isinstance(value, datetime | date) else on_off(value).strip()
