"""SSH keys and certificates by reference, read at each connection to a real sshd that trusts a CA."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, User
from apps.hosts import contact, services
from apps.hosts.access import keys
from apps.hosts.models import Host, Identity
from apps.infrastructure import references
from common.errors import HostError, PlanError, RoleError
from tests.rows.factories import browser, make_user
from tests.servers import remote

pytestmark = [pytest.mark.fast, pytest.mark.needs("sshd"), pytest.mark.django_db(transaction=True)]
NOW = datetime.now(UTC)


def keygen(*arguments: object) -> None:
    subprocess.run(["ssh-keygen", "-q", *map(str, arguments)], check=True, stdin=subprocess.DEVNULL)


def new_key(path: Path) -> Path:
    path.unlink(missing_ok=True)
    keygen("-t", "ed25519", "-N", "", "-C", "bench", "-f", path)
    return path


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    """The allowed directory, with the key `bench`."""
    allowed = tmp_path / "hosts"
    allowed.mkdir()
    new_key(allowed / "bench")
    settings.SECRET_SOURCES = references.sources("SOURCES", [f"file:{allowed}"], {})
    return allowed


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    return new_key(tmp_path / "ca")


def sign(ca: Path, key: Path, validity: str = "-5m:+1h", principal: str | None = None, *more: str) -> None:
    """KEY-cert.pub, as the CA's command or Vault's agent would write it."""
    principal = principal or os.environ.get("USER", "root")
    keygen("-s", ca, "-I", "proving", "-n", principal, "-V", validity, *more, f"{key}.pub")


@pytest.fixture
def trusting(ca: Path) -> Iterator[remote.Server]:
    """An sshd that accepts certificates of the CA, and no key."""
    with remote.short_dir() as state, remote.openssh(state, f"TrustedUserCAKeys {ca}.pub") as running:
        yield running


def opened_by(identity: Identity, host: Host) -> Host:
    Host.objects.filter(pk=host.pk).update(identity=identity)
    return Host.objects.get(pk=host.pk)


def check(host: Host) -> str:
    contact.check_host(host)
    host.refresh_from_db()
    return host.state_reason


def test_a_key_that_is_replaced_is_used_at_the_next_connection(
    folder: Path, register: Callable[..., Host], trusting: remote.Server, admin: User
) -> None:
    identity = services.create_identity("bench", private_key_from=f"file:{folder}/bench", by=admin)
    host = opened_by(identity, register(trusting))
    trusting.authorized_keys.write_text((folder / "bench.pub").read_text())
    assert check(host) == "" and identity.private_key_encrypted == ""

    new_key(folder / "bench")
    assert "refused the login" in check(host)
    trusting.authorized_keys.write_text((folder / "bench.pub").read_text())

    assert check(host) == ""
    assert keys.state(identity).public_key.split()[:2] == (folder / "bench.pub").read_text().split()[:2]


def test_a_certificate_of_the_ca_opens_a_host_that_knows_no_key(
    folder: Path, register: Callable[..., Host], trusting: remote.Server, ca: Path, admin: User
) -> None:
    sign(ca, folder / "bench", principal=trusting.user)
    places = {"private_key_from": f"file:{folder}/bench", "certificate_from": f"file:{folder}/bench-cert.pub"}
    identity = services.create_identity("bench", **places, by=admin)
    host = opened_by(identity, register(trusting))
    trusting.authorized_keys.write_text("")

    assert check(host) == ""

    sign(ca, folder / "bench", principal="nobody-else")
    reason = check(host)
    assert "refused the login" in reason and "TrustedUserCAKeys" in reason


def test_a_stored_key_can_have_a_certificate(
    folder: Path, register: Callable[..., Host], trusting: remote.Server, ca: Path, admin: User
) -> None:
    identity = services.create_identity("bench", by=admin)
    host = opened_by(identity, register(trusting))
    trusting.authorized_keys.write_text("")
    assert "refused the login" in check(host)

    (folder / "stored.pub").write_text(identity.public_key)
    sign(ca, folder / "stored", principal=trusting.user)
    services.change_certificate(identity, f"file:{folder}/stored-cert.pub", by=admin)

    assert check(Host.objects.get(pk=host.pk)) == ""
    entry = AuditEntry.objects.get(action="identity.certificate")
    assert entry.after["certificate_from"] == f"file:{folder}/stored-cert.pub"


def test_an_expired_certificate_is_named_before_a_connection(folder: Path, ca: Path) -> None:
    reference = f"file:{folder}/bench-cert.pub"
    identity = Identity(name="bench", private_key_from=f"file:{folder}/bench", certificate_from=reference)
    sign(ca, folder / "bench")
    ends = keys.login(identity).certificate.ends  # type: ignore[union-attr]
    assert ends is not None

    with pytest.raises(HostError, match="the certificate expired at") as raised:
        keys.login(identity, ends)

    assert raised.value.subject == reference
    with pytest.raises(HostError, match="the certificate is valid from"):
        keys.login(identity, NOW - timedelta(hours=2))


@pytest.mark.parametrize(
    ("validity", "left_h", "is_expiring"),
    [("-1h:+3h", 1.1, False), ("-1h:+3h", 0.9, True), ("-52w:+3w", 170, False), ("-52w:+3w", 166, True)],
)
def test_a_certificate_is_about_to_expire_in_its_last_quarter_but_at_most_a_week_before(
    folder: Path, ca: Path, validity: str, left_h: float, is_expiring: bool
) -> None:
    sign(ca, folder / "bench", validity)

    certificate = keys.read_certificate(f"file:{folder}/bench-cert.pub")

    assert certificate.ends is not None
    assert certificate.is_expiring(certificate.ends - timedelta(hours=left_h)) is is_expiring


def test_pages_show_the_expiry_and_warn_before(folder: Path, ca: Path, admin: User) -> None:
    sign(ca, folder / "bench", "-10h:+1h", "dba")
    places = {"private_key_from": f"file:{folder}/bench", "certificate_from": f"file:{folder}/bench-cert.pub"}
    services.create_identity("bench", **places, by=admin)
    client, viewer = browser(admin), browser(make_user(Role.VIEWER))

    page, hosts = (client.get(reverse(name)).content.decode() for name in ("identity_add", "host_list"))

    assert "principals dba, signed by" in page and f"file:{folder}/bench-cert.pub" in page
    assert "The certificate of SSH key bench expires at" in page and "The certificate of SSH key bench" in hosts
    assert "expires at" not in viewer.get(reverse("host_list")).content.decode()
    listed = client.get(reverse("api:identity-list")).json()["results"][0]
    assert listed["certificate_ends_at"] and listed["problem"] == ""
    (folder / "bench-cert.pub").unlink()
    assert "SSH key bench cannot be used: file:" in client.get(reverse("identity_add")).content.decode()


def test_certificates_that_cannot_log_in_are_refused_with_the_field(folder: Path, ca: Path, admin: User) -> None:
    other = new_key(folder / "other")
    sign(ca, other)
    sign(ca, folder / "bench", "-5m:+1h", "host.example.org", "-h")
    (folder / "host-cert.pub").write_text((folder / "bench-cert.pub").read_text())
    identity = services.create_identity("bench", private_key_from=f"file:{folder}/bench", by=admin)

    def refusal(reference: str) -> str:
        with pytest.raises(PlanError) as raised:
            services.change_certificate(identity, reference, by=admin)
        assert raised.value.subject == "certificate_from"
        return raised.value.message

    assert "is not a certificate for the public key of bench" in refusal(f"file:{folder}/other-cert.pub")
    assert "is not an OpenSSH user certificate" in refusal(f"file:{folder}/host-cert.pub")
    assert "is not an OpenSSH user certificate" in refusal(f"file:{folder}/bench.pub")
    assert "is not in an allowed directory" in refusal(f"file:{ca}-cert.pub")
    assert "No such file" in refusal(f"file:{folder}/gone-cert.pub")


def test_a_tampered_certificate_is_refused(folder: Path, ca: Path) -> None:
    sign(ca, folder / "bench", "-5m:+1h", "aaaa")
    path = folder / "bench-cert.pub"
    algorithm, body, comment = path.read_text().split(maxsplit=2)
    forged = base64.b64encode(base64.b64decode(body).replace(b"aaaa", b"root")).decode()
    path.write_text(f"{algorithm} {forged} {comment}")

    with pytest.raises(HostError, match="is not an OpenSSH user certificate"):
        keys.read_certificate(f"file:{path}")


def test_what_a_reference_holds_is_in_no_error(folder: Path, admin: User) -> None:
    (folder / "bench").write_text("not-a-key-but-a-secret")

    with pytest.raises(PlanError) as raised:
        services.create_identity("bench", private_key_from=f"file:{folder}/bench", by=admin)

    assert "secret" not in str(raised.value) and f"file:{folder}/bench is not a private key" in str(raised.value)


def test_only_instance_admins_use_references(folder: Path) -> None:
    with pytest.raises(RoleError):
        services.create_identity("x", private_key_from=f"file:{folder}/bench", by=make_user(Role.TUNER))
