"""The agent's zipapp with bytecode of this Python beside its sources, built once per process.

An agent compiles each module that it imports: two thirds of the CPU time of the start of a run. Tests start thousands.
The stacks of tests send the agent without bytecode, as every server does.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import marshal
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

from agents import build

UNCHECKED = (1).to_bytes(4, "little")  # bytecode with the hash of its source, which is not compared (PEP 552)


def build_with_bytecode(target: Path, version: str = "", commit: str = "") -> str:
    """Write the zipapp to `target` and return its sha256, as build.build_zipapp does."""
    data = _zipapp(version, commit)
    target.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


@functools.cache
def _zipapp(version: str, commit: str) -> bytes:
    buffer = io.BytesIO(build.zipapp(version, commit))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for path in build.modules():
            if path.name != "version.py":  # a build writes its own
                archive.writestr(f"agents/{path.relative_to(build.SOURCES)}c", _bytecode(path))
    return buffer.getvalue()


def _bytecode(path: Path) -> bytes:
    """The content of a .pyc file. Python keeps the compiled module in __pycache__ for the next process."""
    loader = SourceFileLoader(path.stem, str(path))
    header = importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(path.read_bytes())
    return header + marshal.dumps(loader.get_code(loader.name))


build.build_zipapp = build_with_bytecode
