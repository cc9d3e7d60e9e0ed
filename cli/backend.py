"""Build the wheel of `proving` (PEP 517) with readers and statistics of the checkout.

Other backends refuse files outside of their own folder. This one only needs the standard library."""

from __future__ import annotations

import base64
import hashlib
import os
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
BUNDLE = "proving/bundled"
# In the checkout: the packages that `proving parse` and `proving stat` import.
_HISTOGRAM = ("agents/__init__.py", "agents/wire/__init__.py", "agents/wire/histogram.py")
BUNDLED = ("common/*.py", "readers/**/*.py", "stats/**/*.py", *_HISTOGRAM)
OLDEST = 315532800  # 1980-01-01, the earliest time in a zip file


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Write the wheel, and return its name. The same sources and SOURCE_DATE_EPOCH give the same bytes."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    stem = f"{project['name']}-{project['version']}"
    files = {**_modules(), **_metadata(project, f"{stem}.dist-info")}
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join([*(_recorded(name, data) for name, data in files.items()), f"{record},,\n"]).encode()
    name = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(_entry(path), data)
    return name


def _modules() -> dict[str, bytes]:
    files = [*(HERE / "proving").iterdir(), *(HERE / "proving" / "commands").iterdir()]
    own = {path.relative_to(HERE).as_posix(): path for path in files if path.is_file()}
    carried = {
        f"{BUNDLE}/{path.relative_to(CHECKOUT).as_posix()}": path
        for pattern in BUNDLED
        for path in CHECKOUT.glob(pattern)
    }
    return {name: path.read_bytes() for name, path in sorted({**own, **carried}.items())}


def _metadata(project: Mapping[str, Any], folder: str) -> dict[str, bytes]:
    wheel = "Wheel-Version: 1.0\nGenerator: proving\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    scripts = "".join(f"{name} = {entry}\n" for name, entry in project["scripts"].items())
    files = {"METADATA": "\n".join(_core(project)), "WHEEL": wheel, "entry_points.txt": f"[console_scripts]\n{scripts}"}
    return {f"{folder}/{name}": text.encode() for name, text in files.items()}


def _core(project: Mapping[str, Any]) -> Iterator[str]:
    yield "Metadata-Version: 2.1"
    yield f"Name: {project['name']}"
    yield f"Version: {project['version']}"
    yield f"Summary: {project['description']}"
    yield f"Requires-Python: {project['requires-python']}"
    yield from (f"Requires-Dist: {dependency}" for dependency in project["dependencies"])
    for extra, needed in project.get("optional-dependencies", {}).items():
        yield f"Provides-Extra: {extra}"
        yield from (f'Requires-Dist: {each}; extra == "{extra}"' for each in needed)
    yield "Description-Content-Type: text/markdown"
    yield ""
    yield (HERE / project["readme"]).read_text()


def _recorded(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def _entry(name: str) -> zipfile.ZipInfo:
    made_at = max(OLDEST, int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    entry = zipfile.ZipInfo(name, time.gmtime(made_at)[:6])
    entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
    return entry
