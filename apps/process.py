"""The kind of this process, and the name that it shows in pg_stat_activity."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from apps.fingerprints import fingerprint


def kind(argv: Sequence[str]) -> str:
    """Return web, dispatcher, worker or beat; for manage.py its command, such as migrate."""
    program, arguments = (Path(argv[0]), list(argv[1:])) if argv else (Path(), [])
    name = program.parent.name if program.name == "__main__.py" else program.name
    if name == "gunicorn":
        return "web"
    if name == "celery":
        if "beat" in arguments:
            return "beat"
        return "dispatcher" if "--queues=runs" in arguments else "worker"
    if name == "manage.py" and arguments:
        return arguments[0]
    return "python"


def application_name(first_key: str) -> str:
    """Return the application_name of the server's connections, such as `proving-web key=1f3a9c0d`: the kind of process,
    and the key that encrypts new secrets. rotate_key reads the keys of all processes there."""
    return f"proving-{kind(sys.argv)[:32]} key={fingerprint(first_key)[:8]}"
