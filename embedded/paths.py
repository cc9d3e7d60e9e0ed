"""The files of the stack: one state directory (`var/`), and short paths for sockets."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from embedded.errors import StackError

CHECKOUT = Path(__file__).resolve().parent.parent
LONGEST_SOCKET_NAME = ".s.PGSQL.5432.lock"
# In var/, by make release, make sbom, make docs, make e2e and all tests.
BUILT = ("release", "sbom", "screenshots", "site", "migrated")
SOCKET_PATH_LIMIT = 107  # sun_path in unix(7), without its terminating zero


def private_dir(path: Path) -> Path:
    """Create `path` with mode 0700. StackError if another user owns it or it is a link."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise StackError(f"{path} is not a directory of user {os.geteuid()}; remove it or set XDG_RUNTIME_DIR")
    path.chmod(0o700)
    return path


def socket_dir(state: Path) -> Path:
    """Return `state`/run, or a directory with a short name derived from it if that is too long for Unix sockets."""
    return private_dir(_socket_dir(state))


def _socket_dir(state: Path) -> Path:
    preferred = state / "run"
    if len(os.fsencode(preferred / LONGEST_SOCKET_NAME)) < SOCKET_PATH_LIMIT:
        return preferred
    name = "proving-" + hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not base or len(os.fsencode(base)) > 40 or not Path(base).is_dir():
        base = "/tmp"  # noqa: S108  gettempdir() may be as long as what we flee from; private_dir checks the owner
    return Path(base) / name


def remove(state: Path) -> None:
    """Delete the state directory and that of its sockets. No process may use them. The results of other commands
    (BUILT) remain."""
    sockets = _socket_dir(state)
    if sockets.exists():
        shutil.rmtree(sockets)
    for path in state.iterdir() if state.exists() else ():
        if path.is_dir() and not path.is_symlink():
            if path.name not in BUILT:
                shutil.rmtree(path)
        else:
            path.unlink()
    with suppress(OSError):  # BUILT is not empty
        state.rmdir()


def write_private(path: Path, text: str) -> None:
    """Replace `path` atomically by a file of mode 0600."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # the disk is full
        Path(name).unlink()
        raise
    Path(name).replace(path)


def load_secrets(state: Path) -> dict[str, str]:
    """Return the keys secret_key, postgres_password, ssh_key (a Fernet key), generated once in `state`/secrets.json
    (0600)."""
    path = state / "secrets.json"
    if not path.exists():
        fresh = {
            "secret_key": secrets.token_urlsafe(50),
            "postgres_password": secrets.token_urlsafe(24),
            "ssh_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }
        write_private(path, json.dumps(fresh, indent=2))
    keys: dict[str, str] = json.loads(path.read_text())
    return keys


def lock(state: Path) -> IO[str]:
    """Lock `state` until the returned file is closed. StackError if another process has the lock."""
    file = (state / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        raise StackError(f"{state} is in use by process {owner}; stop that process first") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
