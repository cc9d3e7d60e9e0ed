"""Check scripts of workloads on a host, with the tools that will run them. Contacts hosts, so never inside `atomic`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.wire.protocol import digest
from agents.workloads import WORKLOADS
from apps.accounts.models import Role, User
from apps.accounts.services import require
from apps.campaigns.design import targets
from apps.campaigns.design.steps import Step
from apps.hosts import contact
from apps.hosts.models import Host
from common.errors import AgentError, HostError, PlanError

# Steps in one request; even with the longest scripts they fit into a frame.
BATCH = 16


@dataclass(frozen=True)
class Complaint:
    """A complaint of a tool about a step. `script` is empty if it is about the options; `line` None if unknown."""

    step: str
    script: str
    line: int | None
    message: str
    tool_message: str

    @property
    def problem(self) -> str:
        """The message without its line number."""
        return self.message.rpartition(f"line {self.line}: ")[2]


@dataclass(frozen=True)
class Checked:
    """The answer of one host: the programs that checked the scripts, and their complaints."""

    host: str
    bin_dir: str
    complaints: list[Complaint]

    @property
    def sentence(self) -> str:
        """The answer if there are no errors."""
        return f"{self.host} reports no errors in these scripts, read by {self.bin_dir or 'no tool'}."


def ask_tools(steps: Sequence[Step], host: Host, *, target: Mapping[str, str] | None = None, by: User) -> Checked:
    """Check the scripts with the tools of the host and of `target`, as in a campaign. PlanError if the host has
    none; HostError or AgentError if it cannot be reached."""
    require(by, Role.OPERATOR, "check workload", on=host)
    facts = host.facts
    if not facts:
        raise PlanError("host", f"{host} was never checked", hint="check it: its facts contain the paths of its tools")
    with_postgres = any(WORKLOADS[step["kind"]].needs_postgres for step in steps)
    bin_dir = targets.target(host, facts, target or {})["bin_dir"] if with_postgres else ""
    return Checked(host.name, bin_dir, _ask(host, list(steps), bin_dir))


def unchecked_reason(specs: Iterable[Mapping[str, Any]], host: Host) -> str:
    """Return the reason why the scripts of these runs could not be checked, or "". PlanError for the first complaint.

    A host that does not answer is no reason to refuse: the agent checks again when each run starts."""
    steps_by_bin_dir = {bin_dir: list(steps.values()) for bin_dir, steps in _distinct_steps(specs).items()}
    if not steps_by_bin_dir:
        return ""
    if host.state == Host.State.UNREACHABLE:
        return _unchecked(host.state_reason)
    try:
        complaints = [each for bin_dir, steps in steps_by_bin_dir.items() for each in _ask(host, steps, bin_dir)]
    except (HostError, AgentError) as error:
        return _unchecked(str(error))
    if complaints:
        first, *others = complaints
        more = f"; and {len(others)} more" if others else ""
        raise PlanError(f"steps.{first.step}", first.message + more, hint=f"{host} reports: {first.tool_message}")
    return ""


def _unchecked(why: str) -> str:
    return f"The scripts were not checked: {why}. The agent checks them at the beginning of each run."


def _distinct_steps(specs: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Step]]:
    """Return the distinct steps with scripts, by the directory of their programs."""
    steps_by_bin_dir: dict[str, dict[str, Step]] = {}
    for spec in specs:
        for step in spec["steps"]:
            scripts = WORKLOADS[step["kind"]].scripts(step["options"]) if step["kind"] in WORKLOADS else []
            if scripts:
                steps = steps_by_bin_dir.setdefault((spec["target"] or {}).get("bin_dir", ""), {})
                steps.setdefault(digest([step["name"], scripts, step["options"].get("mode")]), step)
    return steps_by_bin_dir


def _ask(host: Host, steps: list[Step], bin_dir: str) -> list[Complaint]:
    batches = [steps[start : start + BATCH] for start in range(0, len(steps), BATCH)]
    failures = [failure for batch in batches for failure in contact.read_script_failures(host, batch, bin_dir)]
    return [Complaint(each["step"], each["script"], each["line"], each["message"], each["said"]) for each in failures]
