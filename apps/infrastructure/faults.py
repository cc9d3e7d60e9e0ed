"""Tells errors of services that the server depends on from others, and continues work after an error of one item."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from celery.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, InternalError, OperationalError, ProgrammingError
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

# SQLSTATE class of values beyond the limits of PostgreSQL. A host may cause it, unlike other operational errors.
TOO_LARGE = "54"
# The class of errors after a missing migration or right. A host may cause other programming errors: values of a type
# that the driver does not know, or two new rows with one key.
WRONG_TABLES = "42"
# The server lacks room, memory or file descriptors, or its disk fails.
EXHAUSTED = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EROFS}


def is_of_server(error: Exception) -> bool:
    """Whether an error comes from what the server depends on, such as its database or the time limit of a task, and
    passes with that problem."""
    state = getattr(error.__cause__, "sqlstate", "") or ""
    if isinstance(error, OperationalError):
        return not state.startswith(TOO_LARGE)
    if isinstance(error, ProgrammingError):
        return state.startswith(WRONG_TABLES)
    if isinstance(error, OSError):
        return error.errno in EXHAUSTED
    return isinstance(error, InterfaceError | InternalError | RedisError | BrokerError | SoftTimeLimitExceeded)


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
