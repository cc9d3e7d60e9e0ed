"""Compare what the runs of a campaign need with what each of its hosts has, as far as that is known. Only reads
(SELECT).

A failed check refuses the start. A doubtful one only warns: it is an estimate, or the runs wait for it anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise

from django.utils import timezone

from agents.datasets import DATASETS
from agents.workloads import WORKLOADS
from apps.campaigns.design import roles
from apps.campaigns.design.before_start.feasibility import (
    DOUBTFUL,
    FAILED,
    OK,
    SIZES,
    Spec,
    StartCheck,
    free_bytes,
    size,
)
from apps.campaigns.design.before_start.placement import StartPreview
from apps.campaigns.models import Campaign, DataCopy
from apps.hosts.models import Host
from apps.tuning import gucs
from common.errors import PlanError
from common.wording import host_state

STALE = timedelta(days=7)
# A run that writes has a copy of its data set, and WAL.
ROOM = 2.5
Rule = Callable[[Host, Spec, Sequence[Spec]], Iterator[StartCheck]]


def rows(campaign: Campaign, preview: StartPreview) -> list[StartCheck]:
    """Return the checks of everything that the runs need, on each host."""
    of_hosts = [row for host in _hosts(campaign, preview) for row in of_host(host)]
    return of_hosts + _by_specs(campaign, preview, RULES) + _changes_by_hand(campaign, preview)


def too_large(campaign: Campaign, preview: StartPreview) -> list[StartCheck]:
    """Return the checks of sizes that do not fit, or may not fit, on the hosts. The campaign need not be saved."""
    return [row for row in _by_specs(campaign, preview, (_space, *SIZES)) if row.status != OK]


def _by_specs(campaign: Campaign, preview: StartPreview, rules: Sequence[Rule]) -> list[StartCheck]:
    checks: list[StartCheck] = []
    for host in _hosts(campaign, preview):
        facts, specs = host.facts, specs_on(campaign, preview, host)
        checks += [row for rule in rules for row in rule(host, facts, specs)]
    return checks


def _hosts(campaign: Campaign, preview: StartPreview) -> list[Host]:
    by_role = roles.read(campaign)
    return [member.host for member in by_role.members] if by_role else [share.host for share in preview.shares]


def refuse(checks: Sequence[StartCheck]) -> None:
    """Raise PlanError with the first check that failed, if there is one."""
    for check in checks:
        if not check.ok:
            expected = f"; needs {check.wanted}" if check.wanted else ""
            raise PlanError(check.field or check.check, f"{check.host}: {check.actual}{expected}", hint=check.hint)


def specs_on(campaign: Campaign, preview: StartPreview, host: Host) -> list[Spec]:
    """Return the distinct specs of the runs on this host, and of its parts in runs."""
    here = {run.digest: run.spec for run in preview.runs if (run.loader or run.host or campaign.host_id) == host.pk}
    parts = (part for run in preview.runs for part in run.parts if part.host == host.pk)
    return [*here.values(), *{part.digest: part.spec for part in parts}.values()]


def of_host(host: Host) -> Iterator[StartCheck]:
    """Return the checks of the host itself: whether it is released, enabled, reachable and ready."""
    name, state = host.name, Host.State(host.state)
    if state == Host.State.QUARANTINED:
        yield StartCheck(name, "host", FAILED, f"quarantined: {host.state_reason}", "ready", "release it on its page")
    else:
        word = host_state(state)
        why = f"{word}: {host.state_reason}" if host.state_reason else word
        hint = "" if state == Host.State.READY else "its runs are queued until it is ready"
        yield StartCheck(name, "host", OK if state == Host.State.READY else DOUBTFUL, why, "ready", hint)
    newest = host.facts_history.order_by("-number").first()
    if newest:
        old = timezone.now() - newest.seen_at > STALE
        hint = "check the host: its state may have changed" if old else ""
        yield StartCheck(name, "facts", DOUBTFUL if old else OK, f"of {newest.seen_at:%Y-%m-%d %H:%M} UTC", "", hint)
    for row in host.health:
        hint = "" if row["ok"] else "its runs are queued until this is fixed"
        yield StartCheck(name, row["check"], OK if row["ok"] else DOUBTFUL, row["found"], row["wanted"], hint)


def _space(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    """Check the space for data sets that do not exist yet. A lower bound can fail; copies and WAL only warn, as an
    estimate."""
    here = [spec for spec in specs if (spec["target"] or {}).get("kind") != "remote_server"]
    datasets = {(each["kind"], str(each["options"])): each for spec in here if (each := spec.get("dataset"))}
    if not datasets:
        return
    there = set(DataCopy.objects.filter(host=host, state=DataCopy.State.PRISTINE).values_list("fingerprint", flat=True))
    majors = {installation["bin_dir"]: installation["major"] for installation in facts["postgresql"]}
    major = majors.get((specs[0]["target"] or {}).get("bin_dir"), 0)
    missing = [
        DATASETS[dataset["kind"]].bytes(dataset["options"])
        for dataset in datasets.values()
        if DATASETS[dataset["kind"]].fingerprint(dataset["options"], major) not in there
    ]
    whole, largest = (
        sum(missing),
        max(DATASETS[dataset["kind"]].bytes(dataset["options"]) for dataset in datasets.values()),
    )
    needed = whole + (ROOM - 1) * largest
    free = free_bytes(facts, host.data_dir)
    status = DOUBTFUL if free is None or free < needed else OK
    status = FAILED if free is not None and free < whole else status
    actual = "unknown: missing in its facts" if free is None else f"{size(free)} free for {host.data_dir}"
    hint = "" if status == OK else "free some space, or choose a smaller data set"
    name = max(datasets.values(), key=lambda one: DATASETS[one["kind"]].bytes(one["options"])).get("name", "")
    yield StartCheck(host.name, "space for data", status, actual, f"about {size(needed)}", hint, "dataset", name)


def _changes_by_hand(campaign: Campaign, preview: StartPreview) -> list[StartCheck]:
    """Return how often a user has to change parameters of a remote server that need its restart."""
    runs = [run for run in preview.runs if (run.spec["target"] or {}).get("wait_s")]
    values = [_needing_restart(run.spec) for run in runs]
    count = sum(bool(new) and new != old for old, new in pairwise([{}, *values]))
    if not count:
        return []
    names = ", ".join(sorted({name for each in values for name in each}))
    fewer = campaign.order != Campaign.Order.FEWEST_RESTARTS and count > 2
    hint = "the order fewest_restarts needs fewer" if fewer else "a notification run.waiting reports each"
    return [StartCheck(campaign.host.name, "changes by hand", DOUBTFUL, f"up to {count}, of {names}", "", hint)]


def _needing_restart(spec: Spec) -> dict[str, str]:
    parameters = spec["settings"].get("postgresql", {})
    return {name: str(value) for name, value in parameters.items() if gucs.needs_restart(name)}


def _tools(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    """Return the versions of the tools. If one were missing, there would be no plan."""
    known = {name: each.get("version") or "?" for name, each in facts["tools"].items()}
    known |= {
        name: installation["version"]
        for installation in facts["postgresql"]
        for name in installation["tools"]
        if name not in known
    }
    steps = [step for spec in specs for step in spec["steps"] if step["kind"] in WORKLOADS]
    needed = sorted({tool for step in steps for tool in WORKLOADS[step["kind"]].needs(step["options"])})
    if needed:
        yield StartCheck(host.name, "tools", OK, ", ".join(f"{tool} {known.get(tool, '?')}" for tool in needed))


def _postgresql(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    """Check the address where PostgreSQL listens, and what is allowed on an existing server."""
    targets = {str(spec["target"]): spec["target"] for spec in specs if spec["target"]}
    versions = {installation["bin_dir"]: installation["version"] for installation in facts["postgresql"]}
    for target in targets.values():
        version = f"PostgreSQL {versions.get(target['bin_dir'], '?')}"
        if target["kind"] in ("remote", "standby"):
            where = f"{target['address']} on port {target['port']}"
            yield StartCheck(host.name, "PostgreSQL and ports", OK, f"{version}, which connects to {where}")
            continue
        if target["kind"] == "remote_server":
            where = f"{', '.join(target['addresses'])} on port {target['port']}"
            yield StartCheck(
                host.name, "PostgreSQL and ports", OK, f"{version} as client of {target['name']} at {where}"
            )
            continue
        if target["kind"] == "private":
            yield StartCheck(host.name, "PostgreSQL and ports", OK, f"private {version}, on a socket: no port needed")
            continue
        may = "may be restarted" if target["consent"]["restart"] else "restarts are not allowed, and not needed"
        summary = f"{version} in {target['data_dir']} on port {target['port']}, {may}"
        yield StartCheck(host.name, "PostgreSQL and ports", OK, summary)


def _privileges(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    names = sorted({name for spec in specs for name in spec["settings"]})
    if names:
        yield StartCheck(host.name, "privileges", OK, f"level {facts['level']} is enough for {', '.join(names)}")


def _paths(host: Host, facts: Spec, specs: Sequence[Spec]) -> Iterator[StartCheck]:
    named = sorted({allowed_path["path"] for spec in specs for allowed_path in spec.get("allowed_paths", [])})
    if named:
        yield StartCheck(host.name, "allowed paths", OK, ", ".join(named))


RULES: tuple[Rule, ...] = (_space, *SIZES, _tools, _postgresql, _privileges, _paths)
