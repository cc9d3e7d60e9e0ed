"""Create .venv from the hashed locks, with the standard library only: python3 embedded/bootstrap.py runtime embedded
dev

Runs before any package is installed, and reports a Python that is too old. Packages are installed by uv, which is
much faster than pip, with the certificate authorities and indexes of pip's configuration. If uv cannot install (no
build for this machine, a setting that only pip knows), pip installs them."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
VENV = CHECKOUT / ".venv"
STAMP = VENV / "locks.json"
FLOOR = (3, 11)
TIMEOUT_S = 1800
# A setting of pip, and the variable with the same meaning for uv.
OF_UV = {"cert": "SSL_CERT_FILE", "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}


def lock_file(group: str) -> Path:
    """Return the lock file with the pins and hashes of a group."""
    return CHECKOUT / "requirements" / f"{group}.txt"


def digests(groups: list[str]) -> dict[str, str]:
    """Return the sha256 of each lock file. If it has not changed, nothing has to be installed."""
    return {group: hashlib.sha256(lock_file(group).read_bytes()).hexdigest() for group in groups}


def installed() -> dict[str, str]:
    """Return the digests of the installed lock files; {} if .venv is missing or its Python does not exist any more."""
    if not STAMP.exists() or not (VENV / "bin" / "python").exists():
        return {}
    present: dict[str, str] = json.loads(STAMP.read_text())
    return present


def _call(*argv: str, **settings: str) -> int:
    environment = {**settings, **_environment()}
    return subprocess.run(argv, cwd=CHECKOUT, env=environment, timeout=TIMEOUT_S, check=False).returncode


def _environment() -> dict[str, str]:
    """Return the environment with this Python for uv, and without notices of pip."""
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "UV_PYTHON_DOWNLOADS": "never"}
    return {**os.environ, **quiet}


def uv_settings(pip: list[str]) -> dict[str, str]:
    """Return variables that give uv the CAs and indexes of pip's configuration files and environment."""
    done = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    shown = [line.partition("=") for line in done.stdout.splitlines() if "=" in line]
    shown.sort(key=lambda line: line[0].startswith(":env:"))  # the environment overrides the files
    known = {name.rpartition(".")[2]: " ".join(ast.literal_eval(value).split()) for name, _, value in shown}
    return {OF_UV[name]: value for name, value in known.items() if name in OF_UV}


def make_venv() -> str:
    """Create .venv. Returns an error message, or ""."""
    if sys.version_info < FLOOR:
        have = "{}.{}".format(*sys.version_info[:2])
        return f"Python 3.11 or later is needed, {sys.executable} is {have}; try make PYTHON=python3.12"
    if _call(sys.executable, "-m", "venv", "--clear", str(VENV)):
        package = f"python{sysconfig.get_python_version()}-venv"
        return f"{sys.executable} cannot make virtual environments; on Debian: apt-get install {package}"
    return ""


def install(groups: list[str]) -> str:
    """Install all packages of the groups. Returns an error message, or ""."""
    python = str(VENV / "bin" / "python")
    requirements = ["--require-hashes"]
    for group in groups:
        requirements += ["-r", str(lock_file(group))]
    pip = [python, "-m", "pip", "install", "-q", "--require-hashes"]
    if _call(*pip, "-r", str(lock_file("uv"))) == 0:
        uv = [python, "-m", "uv", "pip", "install", "-q", "--compile-bytecode", "--python", python]
        if _call(*uv, *requirements, **uv_settings([python, "-m", "pip"])) == 0:
            return ""
        print("uv could not install the packages; trying pip", file=sys.stderr)
    return "pip could not install the packages; see above" if _call(*pip, *requirements[1:]) else ""


def main(groups: list[str]) -> int:
    """Return 0 if .venv contains the groups. Fast if it did before."""
    locked, present = digests(groups), installed()
    if all(present.get(group) == digest for group, digest in locked.items()):
        return 0
    print(f"installing {', '.join(groups)} into {VENV}", file=sys.stderr)
    error = ("" if present else make_venv()) or install(groups)
    if error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    STAMP.write_text(json.dumps({**present, **locked}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
