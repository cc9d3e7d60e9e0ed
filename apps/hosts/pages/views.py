"""Pages of hosts: the list, one host with its keys and facts, the form, and the buttons."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib import messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from agents import build
from apps.accounts.models import Role, User
from apps.accounts.services import user_of
from apps.hosts import services
from apps.hosts.access import keys, signing
from apps.hosts.facts import changes, topology
from apps.hosts.models import AllowedPath, Facts, Host, HostKey, Identity, Lease, RemoteServer, Trouble
from apps.hosts.pages import host_pairs
from apps.hosts.pages.forms import HostForm, WindowsForm, read_labels, remote_fields
from apps.hosts.usage import allowed_paths, cluster_consents, remote_servers, reservations, windows
from apps.request_values import whole
from apps.web.pages import attempt, blame, needs, of_team, page
from common.errors import HostError, PlanError, ProvingError

SHOWN_VERSIONS = 10
TROUBLES = 50
RESERVED = timedelta(hours=2)  # proposed
USER_CANNOT = (
    "allocate huge pages",
    "change transparent huge pages, kernel parameters, block devices and CPU power",
    "drop the page cache",
    "stop services",
    "restart the host",
)


@needs(Role.VIEWER)
def host_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    newest = Facts.objects.filter(host=OuterRef("pk")).order_by("-number")
    lease = Lease.objects.filter(machine_id=OuterRef("machine_id"), run__isnull=False)
    hosts: QuerySet[Any] = Host.objects.annotate(
        known=Subquery(newest.values("data")[:1]), held=Subquery(lease.values("run")[:1])
    )
    hosts = of_team(request, hosts.filter(name__icontains=query) if query else hosts)
    rows = [
        {"host": host, "topology": topology.line(host.known or {}), "facts": host.known, "run": host.held}
        for host in hosts
    ]
    identities = list(Identity.objects.all())
    context = {"rows": rows, "q": query, "identities": identities, "key_warnings": keys.warnings(identities)}
    return page(request, "hosts/list.html", context)


@needs(Role.VIEWER)
def host_detail(request: HttpRequest, name: str) -> HttpResponse:
    host = get_object_or_404(Host.objects.select_related("identity", "jump", "team"), name=name)
    history = list(host.facts_history.order_by("-number")[: SHOWN_VERSIONS + 1])
    host_keys = list(host.host_keys.select_related("approved_by"))
    facts = history[0].data if history else {}
    troubles = list(host.troubles.select_related("closed_by", "host")[:TROUBLES])
    context = {
        "host": host,
        "facts": facts,
        "fact_pairs": host_pairs.fact_pairs(facts),
        "connection": host_pairs.connection_pairs(host, facts),
        "supervision": host_pairs.supervision_pairs(host),
        "facts_row": history[0] if history else None,
        "versions": _versions(history),
        "sockets": topology.sockets(facts),
        "memory_nodes": topology.nodes_without_cpus(facts),
        "clusters": cluster_consents.clusters(host, facts),
        "remotes": list(host.remote_servers.select_related("changed_by")),
        "ssl_modes": RemoteServer.SslMode.choices,
        "secret_sources": str(settings.SECRET_SOURCES),
        "key_warnings": keys.warnings([host.identity] if host.identity else []),
        "paths": allowed_paths.path_rows(host, facts),
        "path_kinds": AllowedPath.Kind.choices,
        "topology": topology.line(facts),
        "numbering": topology.numbering(facts),
        "caches": topology.caches(facts),
        "distances": topology.distances(facts),
        "pinned": next((key for key in host_keys if key.state == HostKey.State.PINNED), None),
        "offered": next((key for key in host_keys if key.state == HostKey.State.OFFERED), None),
        "retired": [key for key in host_keys if key.state == HostKey.State.RETIRED],
        "lease": Lease.objects.filter(machine_id=host.machine_id, run__isnull=False).first()
        if host.machine_id
        else None,
        "troubles": [trouble for trouble in troubles if trouble.closed_at is None],
        "seen_to": [trouble for trouble in troubles if trouble.closed_at],
        "reservation": reservations.in_force(host, timezone.now()),
        "calendar": windows.read(host.windows, host.time_zone),
        "windows": WindowsForm.of(host.windows),
        "until": (timezone.localtime(timezone.now(), ZoneInfo(host.time_zone)) + RESERVED).strftime("%Y-%m-%dT%H:00"),
        "user_cannot": USER_CANNOT,
        "agent_command": host.guard_command,
    }
    return page(request, "hosts/detail/page.html", context)


def _versions(history: list[Facts]) -> list[dict[str, Any]]:
    """Return the versions of the facts, newest first, each with its changes, those that affect runs first.

    None for a version whose predecessor is not shown or does not exist."""
    pairs = list(zip_longest(history, history[1:]))[:SHOWN_VERSIONS]
    return [{"facts": new, "changes": _changes(old, new) if old else None} for new, old in pairs]


def _changes(old: Facts, new: Facts) -> list[changes.FactChange]:
    return sorted(changes.between(old.data, new.data), key=lambda change: not change.weighty)


@needs(Role.ADMIN, somewhere=True)
def host_add(request: HttpRequest) -> HttpResponse:
    if not Identity.objects.exists():
        messages.info(request, "A host needs an SSH key: create one first.")
        return redirect("identity_add")
    made = _identity(request.GET.get("identity", ""))
    form = HostForm(request.POST or None, initial={"identity": made or Identity.objects.first()})
    form.offer_teams(user_of(request))
    if request.method == "POST" and form.is_valid():
        try:
            host = services.add_host(by=user_of(request), **form.fields_of_host())
        except ProvingError as error:
            blame(form, error)
        else:
            messages.success(request, f"{host} is added. Next, fetch its host key, compare it and approve it.")
            return redirect("host_detail", host.name)
    return page(request, "hosts/form.html", {"made": made}, form)


def _identity(key: str) -> Identity | None:
    """Return the SSH key with this primary key; None if there is none or the key is malformed."""
    return Identity.objects.filter(pk=whole(key) or 0).first()


def _fetch(host: Host, by: User, request: HttpRequest) -> None:
    services.fetch_host_key(host, by=by)


def _approve(host: Host, by: User, request: HttpRequest) -> None:
    services.approve_host_key(host, request.POST.get("fingerprint", ""), by=by)
    services.request_check(host, by=by)


def _accept_machine(host: Host, by: User, request: HttpRequest) -> None:
    services.accept_machine(host, by=by)


def _check(host: Host, by: User, request: HttpRequest) -> None:
    services.request_check(host, by=by)


def _release(host: Host, by: User, request: HttpRequest) -> None:
    services.release_host(host, by=by)


def _install(host: Host, by: User, request: HttpRequest) -> list[str]:
    return services.install_units(host, by=by)


def _uninstall(host: Host, by: User, request: HttpRequest) -> list[str]:
    return services.uninstall_units(host, by=by)


def _restore(host: Host, by: User, request: HttpRequest) -> list[str]:
    recovered = services.restore_host(host, by=by)
    return [f"run {status['run'][:8]}: {line}" for status in recovered for line in status["did"]] or [
        "there was nothing to restore"
    ]


def _allow_reboots(host: Host, by: User, request: HttpRequest) -> None:
    services.change_host(host, by=by, may_reboot=True)


def _forbid_reboots(host: Host, by: User, request: HttpRequest) -> None:
    services.change_host(host, by=by, may_reboot=False)


def _use_launcher(host: Host, by: User, request: HttpRequest) -> None:
    services.change_host(host, by=by, launcher=True)


def _use_python(host: Host, by: User, request: HttpRequest) -> None:
    services.change_host(host, by=by, launcher=False)


def _allow_cluster(host: Host, by: User, request: HttpRequest) -> None:
    cluster_consents.allow(host, request.POST.get("data_dir", ""), request.POST.get("may", ""), by=by)


def _forbid_cluster(host: Host, by: User, request: HttpRequest) -> None:
    cluster_consents.withdraw(host, request.POST.get("data_dir", ""), request.POST.get("may", ""), by=by)


def _allow_path(host: Host, by: User, request: HttpRequest) -> None:
    allowed_paths.allow(host, request.POST.get("path", "").strip(), request.POST.get("kind", ""), by=by)


def _forbid_path(host: Host, by: User, request: HttpRequest) -> None:
    allowed_paths.withdraw(host, request.POST.get("path", ""), by=by)


def _save_remote(host: Host, by: User, request: HttpRequest) -> None:
    remote_servers.register(host, request.POST.get("name", "").strip(), by=by, **remote_fields(request.POST))


def _describe_remote(host: Host, by: User, request: HttpRequest) -> list[str]:
    server = services.query_remote_server(host, request.POST.get("name", ""), by=by)
    if server.check_error:
        raise HostError(server, server.check_error["message"], hint=server.check_error["hint"])
    facts = server.checked
    return [f"PostgreSQL {facts['version']}, round trip {facts['round_trip_ms']['median']:.3g} ms"]


def _remove_remote(host: Host, by: User, request: HttpRequest) -> None:
    remote_servers.remove(host, request.POST.get("name", ""), by=by)


def _reserve(host: Host, by: User, request: HttpRequest) -> None:
    reservations.reserve(host, _until(host, request.POST.get("until", "")), request.POST.get("reason", ""), by=by)


def _until(host: Host, typed: str) -> datetime:
    """Parse a field for date and time, in the time zone of the host."""
    try:
        return datetime.fromisoformat(typed).replace(tzinfo=ZoneInfo(host.time_zone))
    except ValueError as error:
        raise PlanError(
            "until", f"{typed!r:.40} is not a time", hint="accepted: a date and a time, such as 2026-01-31 18:00"
        ) from error


def _give_up(host: Host, by: User, request: HttpRequest) -> None:
    reservations.give_up(host, by=by)


def _windows(host: Host, by: User, request: HttpRequest) -> None:
    typed = WindowsForm(request.POST)
    services.change_host(host, by=by, windows=typed.windows(), time_zone=request.POST.get("time_zone", "").strip())


def _labels(host: Host, by: User, request: HttpRequest) -> None:
    services.change_host(host, by=by, labels=read_labels(request.POST.get("labels", "")))


# An action may return lines, which are shown below its message.
Action = Callable[[Host, User, HttpRequest], list[str] | None]
ACTIONS: dict[str, tuple[Action, Role, str]] = {
    "fetch-key": (_fetch, Role.ADMIN, "{host} offers the host key below. Compare it, then approve it."),
    "approve": (_approve, Role.ADMIN, "The host key is approved. {host} is being checked."),
    "accept-machine": (_accept_machine, Role.ADMIN, "The machine-id is accepted. {host} is being checked."),
    "check": (_check, Role.OPERATOR, "{host} is being checked; the result appears here."),
    "release": (
        _release,
        Role.ADMIN,
        "{host} is being released. Its agent first restores the remaining values.",
    ),
    "reserve": (_reserve, Role.OPERATOR, "{host} is reserved for you: no other run starts until then."),
    "give-up": (_give_up, Role.OPERATOR, "{host} is available again; queued runs resume."),
    "windows": (_windows, Role.ADMIN, "Runs on {host} now start only in these windows."),
    "labels": (_labels, Role.ADMIN, "The labels of {host} are updated."),
    "install-units": (_install, Role.ADMIN, "systemd now supervises the runs of {host}. Written:"),
    "uninstall-units": (_uninstall, Role.ADMIN, "The units are removed from {host}. Removed:"),
    "restore": (_restore, Role.ADMIN, "The agent on {host} restored what interrupted runs left."),
    "allow-reboots": (_allow_reboots, Role.ADMIN, "Campaigns can now restart {host}."),
    "use-launcher": (_use_launcher, Role.ADMIN, "proving-agent now starts the agent on {host}."),
    "use-python": (_use_python, Role.ADMIN, "{host.python} now starts the agent on {host}."),
    "allow-cluster": (_allow_cluster, Role.ADMIN, "Allowed, in your name."),
    "forbid-cluster": (_forbid_cluster, Role.ADMIN, "No longer allowed. Runs that were planned on it will fail."),
    "allow-path": (_allow_path, Role.ADMIN, "Workloads can now write there, in your name."),
    "forbid-path": (_forbid_path, Role.ADMIN, "No longer allowed. Runs that were planned on it will fail."),
    "save-remote": (_save_remote, Role.ADMIN, "The remote server is saved. Check its connection next."),
    "check-remote": (_describe_remote, Role.OPERATOR, "{host} reaches the server."),
    "remove-remote": (_remove_remote, Role.ADMIN, "Removed. Runs that were planned on it will fail."),
    "forbid-reboots": (_forbid_reboots, Role.ADMIN, "Campaigns can no longer restart {host}."),
}


@needs(Role.ADMIN, somewhere=True)
def launcher_file(request: HttpRequest, name: str) -> HttpResponse:
    """Download a file that an admin installs on a host: the launcher, or the keys that it trusts."""
    text = {"proving-agent": build.launcher_source, "signers": signing.signers}[name]()
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def host_action(request: HttpRequest, name: str, action: str) -> HttpResponse:
    if action not in ACTIONS:
        raise Http404(action)
    host, by = get_object_or_404(Host, name=name), user_of(request)
    act, _, done = ACTIONS[action]
    lines: list[str] = []
    attempt(request, lambda: lines.extend(act(host, by, request) or []), done.format(host=host))
    for line in lines:
        messages.info(request, line)
    return redirect("host_detail", host.name)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def trouble_dismiss(request: HttpRequest, pk: int) -> HttpResponse:
    """Return to the page with the button: home, or the host."""
    trouble, by = get_object_or_404(Trouble.objects.select_related("host"), pk=pk), user_of(request)
    attempt(request, lambda: services.dismiss(trouble, by=by), f"The conflict on {trouble.host} is dismissed.")
    home = request.POST.get("next") == reverse("home")
    return redirect("home") if home else redirect("host_detail", trouble.host.name)


urlpatterns = [
    path("troubles/<int:pk>/dismiss/", trouble_dismiss, name="trouble_dismiss"),
    path("hosts/", host_list, name="host_list"),
    path("hosts/add/", host_add, name="host_add"),
    path("hosts/keys/launcher/", launcher_file, {"name": "proving-agent"}, name="launcher"),
    path("hosts/keys/signers/", launcher_file, {"name": "signers"}, name="signers"),
    path("hosts/<str:name>/", host_detail, name="host_detail"),
    path("hosts/<str:name>/<slug:action>/", host_action, name="host_action"),
]
