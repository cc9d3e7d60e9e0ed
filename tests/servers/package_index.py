"""How this machine reaches the index of Python packages, for tests that install them in a container or another root."""

from __future__ import annotations

import ast
import ssl
import subprocess
import sys
from pathlib import Path

INDEX = ("index-url", "extra-index-url", "trusted-host")
DEBIAN_CAS = Path("/etc/ssl/certs/ca-certificates.crt")


def settings() -> dict[str, str]:
    """What pip's configuration says of the index."""
    return {name: value for name, value in _configured().items() if name in INDEX}


def trusted_cas() -> Path | None:
    """The file of the CAs that this machine trusts."""
    configured = _configured().get("cert") or ssl.get_default_verify_paths().cafile
    cas = Path(configured) if configured else DEBIAN_CAS
    return cas if cas.is_file() else None


def pip_conf(settings: dict[str, str]) -> str:
    """These settings as the text of a configuration file."""
    return "\n".join(["[global]", *(f"{name} = {value}" for name, value in settings.items())]) + "\n"


def _configured() -> dict[str, str]:
    command = [sys.executable, "-m", "pip", "config", "list"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    lines = [line.partition("=") for line in shown.splitlines()]
    lines.sort(key=lambda line: line[0].startswith(":env:"))  # the environment overrides the files
    return {name.rpartition(".")[2]: " ".join(ast.literal_eval(value).split()) for name, _, value in lines}
