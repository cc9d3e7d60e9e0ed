"""Errors by their cause. Every error says what happened, and what to do next.

Failure
├── PlanFailure        the request
│   └── Unplannable    one field of it, its value, and what would be accepted
├── HostFailure        the machine
│   └── NotApplied     a setting that is not in effect: wanted and found; ends the run as not_in_effect
├── AgentFailure       this program
├── WorkloadFailure    the tool that was measured
├── Cancelled          a user cancelled the run
└── Interrupted        the supervisor got SIGTERM or died
"""

from __future__ import annotations

import errno
from typing import Any


class Failure(Exception):
    """Base of all: `blame` as on the wire, `outcome` that a run takes from it, and details for the reader."""

    blame = "agent"
    outcome = "failed"

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message, self.hint, self.details = message, hint, details

    @property
    def with_hint(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def as_json(self) -> dict[str, Any]:
        """The Failure object of the protocol."""
        return {"blame": self.blame, "message": self.message, "hint": self.hint, **self.details}


class PlanFailure(Failure):
    blame = "plan"


class Unplannable(PlanFailure):
    """`field` cannot be `value` on this host; `accepted` describes possible values."""

    def __init__(self, field: str, value: Any, accepted: str, hint: str = "") -> None:
        super().__init__(f"{field}: {value!r} is not accepted; accepted: {accepted}", hint, field=field)
        self.field, self.value, self.accepted = field, value, accepted
        self.details.update(value=value, accepted=accepted)


class HostFailure(Failure):
    blame = "host"


class NotApplied(HostFailure):
    """A setting that is not in effect: the `wanted` value and the one `found`."""

    outcome = "not_in_effect"

    def __init__(self, name: str, expected: Any, actual: Any, hint: str = "") -> None:
        super().__init__(f"{name} is not in effect: it should be {expected}, but is {actual}", hint)
        self.details.update(setting=name, wanted=expected, found=actual)


class AgentFailure(Failure):
    blame = "agent"


class WorkloadFailure(Failure):
    blame = "workload"


class Cancelled(Failure):
    blame = "plan"
    outcome = "cancelled"


class Interrupted(Failure):
    blame = "host"
    outcome = "interrupted"


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def host_failure(error: OSError) -> HostFailure:
    """The kernel refused a change; names the change and the place."""
    return HostFailure(f"{error.strerror}: {error.filename or ''}", "free some space" if is_full(error) else "")
