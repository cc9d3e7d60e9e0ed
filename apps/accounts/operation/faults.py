"""Which errors come from what the server depends on, and how work on several things goes on after an error of one."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

# SQLSTATE class of values beyond the limits of PostgreSQL. A host may cause it, unlike other operational errors.
TOO_LARGE = "54"
# The server lacks room, memory or file descriptors, or its disk fails.
EXHAUSTED = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EROFS}


def is_of_server(error: Exception) -> bool:
    """Whether an error comes from what the server depends on, such as its database, and passes with that problem."""
    if isinstance(error, OperationalError):
        return not (getattr(error.__cause__, "sqlstate", "") or "").startswith(TOO_LARGE)
    if isinstance(error, OSError):
        return error.errno in EXHAUSTED
    return isinstance(error, InterfaceError | RedisError | BrokerError)


@contextmanager
def apart(work: str) -> Iterator[None]:
    """Log an error of this work on one of several things, so that the others are done as well. An error of the server
    itself is raised, because the others would have it, too."""
    try:
        yield
    except Exception as error:
        if is_of_server(error):
            raise
        log.exception("%s failed", work)
