"""A hostile host over real SSH: each lie ends with a reason, and in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.accounts.models import AuditEntry
from apps.hosts import contact
from apps.hosts.access import ssh
from apps.hosts.models import Host
from tests.hostile import greetings, memory
from tests.servers import remote

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.fast]
Register = Callable[..., Host]
LIMIT_S, AMPLE_S = 3.0, 60.0
MAX_MIB = 120  # the largest frame, its text, and its objects


# Words of the cause, for lies that another check could refuse first.
SAYS = {"facts with 20,000,000 cpus": "cpus: online: '0-20000000' is not a list of CPUs"}


@pytest.fixture
def lying(register: Register, server: remote.Server, tmp_path: Path) -> Callable[[str], Host]:
    def lying(lie: str) -> Host:
        host = register(server)
        tmp_path.chmod(0o755)
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\nexec {sys.executable} {greetings.__file__} '{lie}' \"$@\"\n")
        program.chmod(0o755)
        Host.objects.filter(pk=host.pk).update(python=str(program))
        host.refresh_from_db()
        return host

    return lying


@pytest.mark.parametrize("lie", greetings.LIES)
def test_a_lie_makes_the_host_unreachable_and_nothing_else(
    lying: Callable[[str], Host], lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CALL_S", "OPEN_S"):
        monkeypatch.setattr(ssh, name, AMPLE_S if lie in SAYS else LIMIT_S)  # where the limit must not be the cause
    host = lying(lie)

    with memory.Peak() as peak:
        contact.check_host(host)

    host.refresh_from_db()
    audited = sum(len(str(entry.after)) for entry in AuditEntry.objects.filter(action__startswith="host."))
    assert host.state == Host.State.UNREACHABLE
    assert len(host.state_reason) < 10_000
    assert not host.facts
    assert SAYS.get(lie, "") in host.state_reason
    assert peak.grown_mib < MAX_MIB
    assert audited < 1_000_000
