"""The boot in which the server last connected: a run that has booted its host waits for that."""

from __future__ import annotations

from ..errors import is_full
from .spool import Spool, replace

FILE = "contact"


def newest_boot(spool: Spool) -> str:
    """Id of the boot in which the server last connected; "" for none."""
    return spool.system.text(str(spool.root / FILE))


def note(spool: Spool) -> None:
    """Record that the server has connected in this boot. A full disk must not prevent the connection: a run that waits
    for it then restores the host after its limit."""
    if spool.unsealed() and newest_boot(spool) != spool.system.boot_id():
        try:
            replace(spool.root / FILE, spool.system.boot_id().encode())
        except OSError as error:
            if not is_full(error):
                raise
