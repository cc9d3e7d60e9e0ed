"""Builds the agent's zipapp. The same sources always give the same bytes."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

SOURCES = Path(__file__).parent
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest that a zip can say
_MAIN = "zip_main.py"


def zipapp(version: str = "", commit: str = "") -> bytes:
    """The zipapp's bytes, with the version and commit of the server that sends it."""
    buffer = io.BytesIO(b"#!/usr/bin/env python3\n")
    buffer.seek(0, io.SEEK_END)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", (SOURCES / _MAIN).read_bytes())
        for path in modules():
            name = path.relative_to(SOURCES).as_posix()
            data = _named(version, commit) if name == "version.py" else path.read_bytes()
            _add(archive, f"agents/{name}", data)
    return buffer.getvalue()


def modules() -> list[Path]:
    """The sources of the agent's modules in the zipapp."""
    return sorted(set(SOURCES.rglob("*.py")) - {SOURCES / _MAIN, SOURCES / "build.py"})


def _named(version: str, commit: str) -> bytes:
    return f'"""Which server built this agent."""\n\nVERSION = {version!r}\nCOMMIT = {commit!r}\n'.encode()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
    archive.writestr(info, data, compresslevel=9)


def build_zipapp(target: Path, version: str = "", commit: str = "") -> str:
    """Write the zipapp to `target` and return its sha256."""
    data = zipapp(version, commit)
    target.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def launcher_source() -> str:
    """The launcher, as an admin installs it on a host; see launcher.py."""
    return (SOURCES / "launcher.py").read_text()
