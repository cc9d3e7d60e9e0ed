"""One tree of errors, named by who is to blame.

ProvingError
    PlanError       the request: what was asked cannot be done or is not allowed
        RoleError   the asker's role does not include it
    HostError       the machine: changed, busy, or not able
        UnreachableError    it does not answer, or does not let us in
    AgentError      us, over there
    WorkloadError   the tool: it failed, or printed what we cannot read
        FormatError what a tool printed is not what its parser knows
"""

from __future__ import annotations

from typing import Any, ClassVar


class ProvingError(Exception):
    """`subject` is the culprit (a field, a host, a tool), `message` what is wrong, `hint` what to do next."""

    blame: ClassVar[str] = ""

    def __init__(self, subject: object, message: str, *, hint: str = "") -> None:
        self.subject, self.message, self.hint = str(subject), message, hint
        super().__init__(f"{subject}: {message}" + (f" ({hint})" if hint else ""))

    @property
    def reason(self) -> str:
        """Message and hint in one line. It names the host, agent or tool, but not the field of a request."""
        text = self.message if self.blame == "plan" else f"{self.subject}: {self.message}"
        return f"{text}; {self.hint}" if self.hint else text

    def as_dict(self) -> dict[str, Any]:
        """The shape of a Failure in agents/wire/protocol.py."""
        return {"blame": self.blame, "subject": self.subject, "message": self.message, "hint": self.hint}


class PlanError(ProvingError):
    """The request: `subject` names the field."""

    blame = "plan"


class RoleError(PlanError):
    """The asker's role does not include the action."""


class HostError(ProvingError):
    """The machine: `subject` names the host."""

    blame = "host"


class UnreachableError(HostError):
    """No connection: down, blocked, another host key, or our key refused."""


class AgentError(ProvingError):
    """Our own program on the host."""

    blame = "agent"


class WorkloadError(ProvingError):
    """The tool that was run."""

    blame = "workload"


class FormatError(WorkloadError):
    """`subject` names what was read, `message` says what and where."""
