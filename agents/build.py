"""The zipapp that is pushed to hosts: the same sources give the same bytes, whoever builds it, whenever."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

SOURCES = Path(__file__).parent
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest that a zip can say
_MAIN = b"from agents.__main__ import main\n\nmain()\n"


def zipapp() -> bytes:
    """The zipapp's bytes."""
    buffer = io.BytesIO(b"#!/usr/bin/env python3\n")
    buffer.seek(0, io.SEEK_END)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN)
        for path in sorted(SOURCES.rglob("*.py")):
            _add(archive, f"agents/{path.relative_to(SOURCES).as_posix()}", path.read_bytes())
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
    archive.writestr(info, data)


def build_zipapp(target: Path) -> str:
    """Write the zipapp to `target` and return its sha256."""
    data = zipapp()
    target.write_bytes(data)
    return hashlib.sha256(data).hexdigest()
