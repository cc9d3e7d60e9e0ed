"""The chain of the audit log detects each changed, removed or inserted entry, in the database and in an export."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, connections, transaction

from apps.accounts.audit import chain
from apps.accounts.management.commands import verify_audit
from apps.accounts.models import AuditEntry, AuditSeal, User
from apps.accounts.services import audit
from tests.rows.factories import browser

ENTRIES = 5
Lines = list[dict[str, Any]]


@pytest.fixture
def sealed(admin: User) -> None:
    for number in range(ENTRIES):
        audit(admin, "host.add", f"db{number}", after={"id": number, "größe": 1.5, "at": None})
    chain.seal()


def as_owner(statement: str) -> None:
    """Execute a statement without triggers, as the owner of the database can."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("RESET session_replication_role")


def verified(*arguments: str) -> str:
    out = io.StringIO()
    call_command("verify_audit", *arguments, stdout=out)
    return out.getvalue()


def test_an_untouched_log_is_intact(sealed: None) -> None:
    assert verified() == f"intact: {ENTRIES} entries; the last seal is {chain.head()}\n"


@pytest.mark.parametrize(
    ("statement", "seal"),
    [
        ("UPDATE accounts_auditentry SET target = 'db9' WHERE target = 'db2'", 3),
        ("UPDATE accounts_auditentry SET actor_id = NULL WHERE target = 'db0'", 1),
        ("UPDATE accounts_auditentry SET at = at + interval '1 s' WHERE target = 'db4'", 5),
        ("""UPDATE accounts_auditentry SET after = '{"id": 7}' WHERE target = 'db1'""", 2),
        ("UPDATE accounts_auditseal SET digest = repeat('0', 64) WHERE number = 4", 4),
        ("UPDATE accounts_user SET username = 'somebody-else'", 1),
    ],
)
def test_a_changed_entry_is_named_by_its_seal(sealed: None, statement: str, seal: int) -> None:
    as_owner(statement)

    with pytest.raises(CommandError, match=f"seal {seal} does not fit entry"):
        verified()


def test_a_removed_entry_leaves_a_gap(sealed: None) -> None:
    as_owner(
        "WITH gone AS (DELETE FROM accounts_auditseal WHERE number = 3 RETURNING entry_id)"
        " DELETE FROM accounts_auditentry WHERE id IN (SELECT entry_id FROM gone)"
    )

    with pytest.raises(CommandError, match="seal 3 is missing: the next one is 4"):
        verified()


def test_a_chain_that_was_rewritten_lacks_the_noted_seal(sealed: None) -> None:
    noted = str(chain.head())
    as_owner("UPDATE accounts_auditentry SET target = 'db9' WHERE target = 'db2'")
    as_owner("DELETE FROM accounts_auditseal")
    chain.seal()

    assert "intact" in verified()
    with pytest.raises(CommandError, match="rewritten or truncated"):
        verified("--head", noted)


def test_a_log_that_was_truncated_lacks_the_noted_seal(sealed: None) -> None:
    noted = str(chain.head())
    as_owner("DELETE FROM accounts_auditseal WHERE number = 5")
    as_owner("DELETE FROM accounts_auditentry WHERE target = 'db4'")

    with pytest.raises(CommandError, match="rewritten or truncated"):
        verified("--head", noted)


@pytest.mark.parametrize("head", ["5", "5:abc", "x:" + "0" * 64])
def test_an_invalid_head_is_refused(sealed: None, head: str) -> None:
    with pytest.raises(CommandError, match="accepted: NUMBER:DIGEST"):
        verified("--head", head)


@pytest.mark.parametrize("statement", ["UPDATE accounts_auditseal SET digest = ''", "DELETE FROM accounts_auditseal"])
def test_seals_can_neither_be_changed_nor_deleted(sealed: None, statement: str) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_an_entry_that_commits_after_a_later_one_is_sealed_next(sealed: None, admin: User) -> None:
    """Ids are taken before the commit, so a lower one may become visible later."""
    audit(admin, "host.add", "early")
    audit(admin, "host.add", "late")
    early, late = AuditEntry.objects.get(target="early"), AuditEntry.objects.get(target="late")
    digest = chain.digest_of(chain.line_of(late, 6), chain.head().digest)
    AuditSeal.objects.create(number=6, entry=late, digest=digest)

    chain.seal()

    assert AuditSeal.objects.get(entry=early).number == 7
    assert "intact: 7 entries" in verified()


def test_new_entries_are_sealed_after_the_clock_of_the_server_was_set_back(sealed: None, admin: User) -> None:
    as_owner("UPDATE accounts_auditentry SET at = at + interval '10 days' WHERE target = 'db4'")

    audit(admin, "host.add", "afterwards")

    assert chain.seal() == 1


@pytest.mark.django_db(transaction=True)
def test_two_processes_never_seal_at_the_same_time(admin: User) -> None:
    audit(admin, "host.add", "db1")
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [chain.LOCK])

        assert chain.seal() == 0

        cursor.execute("SELECT pg_advisory_unlock(%s)", [chain.LOCK])
    other.close()
    assert chain.seal() == 1


@pytest.fixture
def exported(sealed: None, tmp_path: Path) -> Path:
    file = tmp_path / "audit.ndjson"
    call_command("export_audit", str(file), stdout=io.StringIO())
    return file


def test_an_export_is_verified_without_the_database(exported: Path, django_db_blocker: Any) -> None:
    noted = str(chain.head())
    with django_db_blocker.block():
        assert f"the last seal is {noted}" in verified(str(exported), "--head", noted)


def _without_the_third(lines: Lines) -> Lines:
    return [*lines[:2], *lines[3:]]


def _another_target(lines: Lines) -> Lines:
    return [*lines[:2], {**lines[2], "target": "db9"}, *lines[3:]]


def _one_twice(lines: Lines) -> Lines:
    return [*lines[:3], *lines[2:]]


def _a_surrogate(lines: Lines) -> Lines:
    return [*lines[:2], {**lines[2], "target": "\ud800"}, *lines[3:]]


def _another_actor(lines: Lines) -> Lines:
    """Readers see the name, not the number of the user."""
    return [*lines[:2], {**lines[2], "actor": "somebody-else"}, *lines[3:]]


@pytest.mark.parametrize("forge", [_without_the_third, _another_target, _one_twice, _a_surrogate, _another_actor])
def test_a_forged_export_is_not_intact(exported: Path, forge: Callable[[Lines], Lines]) -> None:
    forged = forge([json.loads(line) for line in exported.read_text().splitlines()])
    exported.write_text("".join(json.dumps(line) + "\n" for line in forged))

    with pytest.raises(CommandError, match="not intact"):
        verified(str(exported))


@pytest.mark.parametrize("content", [b"not JSON\n", b"{}\n", b"[" * 9999, b"3\n", b"\xff\n", b"x" * 9999])
def test_an_invalid_export_is_refused_with_its_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "audit.ndjson"
    file.write_bytes(content)

    with pytest.raises(CommandError, match="line 1 is not an entry"):
        verified(str(file))


TARGET = b'"target": "db0"'


@pytest.mark.parametrize(
    ("original", "forged"),
    [
        (b'"actor": "ada", ', b""),
        (TARGET, b'"target": "db9", "target": "db0"'),  # many readers take the first of two
        (b'"id": 0', b'"id": 9, "id": 0'),
        (TARGET, b'"target": "db0", "note": "approved"'),
        (b'"number": 1,', b'"number": true,'),
        (b'"number": 1,', b'"number": 1.0,'),
        (b'"id": 0', b'"id": NaN'),
        (b'"id": 0', b'"id": -Infinity'),
        (b'"id": 0', b'"id": ' + b"9" * 5000),
        (b'"digest": "', b'"digest": "\\u001b[2J'),
        (b'{"number"', b'\xef\xbb\xbf{"number"'),
    ],
)
def test_a_line_with_anything_that_the_server_does_not_write_is_refused(
    exported: Path, original: bytes, forged: bytes
) -> None:
    content = exported.read_bytes()
    exported.write_bytes(content.replace(original, forged, 1))
    assert content != exported.read_bytes()

    with pytest.raises(CommandError, match="line 1 is not an entry"):
        verified(str(exported))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32-be"])
def test_another_encoding_is_refused(exported: Path, encoding: str) -> None:
    exported.write_bytes(exported.read_text().encode(encoding))

    with pytest.raises(CommandError, match="line 1 is not an entry"):
        verified(str(exported))


def test_a_forged_export_does_not_control_the_terminal(exported: Path) -> None:
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    lines[2]["id"] = "\r\x1b[2Jintact: 5 entries"
    exported.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with pytest.raises(CommandError) as refused:
        verified(str(exported))
    assert all(each.isprintable() for each in str(refused.value).splitlines())


def test_an_export_has_no_characters_that_control_a_terminal(admin: User, tmp_path: Path) -> None:
    audit(admin, "host.add", "db1 \u202e\u009b2J")
    file = tmp_path / "audit.ndjson"
    call_command("export_audit", str(file), stdout=io.StringIO())

    assert file.read_bytes().isascii()
    assert "intact: 1 entries" in verified(str(file))


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_audit, "LONGEST_LINE", 1000)
    file = tmp_path / "audit.ndjson"
    with file.open("wb") as out:
        out.truncate(1 << 40)

    with pytest.raises(CommandError, match="line 1 is not an entry"):
        verified(str(file))


def test_the_nesting_of_a_forged_entry_causes_no_traceback(exported: Path) -> None:
    lines = exported.read_bytes().splitlines(keepends=True)
    for depth in range(750, 950, 10):
        exported.write_bytes(lines[0].replace(b'"before": null', b'"before": ' + b"[" * depth + b"]" * depth))
        with pytest.raises(CommandError):
            verified(str(exported))


def test_seals_made_before_they_covered_the_name_of_the_user_stay_valid(sealed: None) -> None:
    as_owner("DELETE FROM accounts_auditseal")
    last = ""
    for number, entry in enumerate(AuditEntry.objects.order_by("id"), 1):
        last = chain.digest_of(chain.line_of(entry, number), last, chain.COVERED_AT_FIRST)
        AuditSeal.objects.create(number=number, entry=entry, digest=last)

    assert "intact" in verified()


def test_an_existing_file_is_not_overwritten(exported: Path) -> None:
    with pytest.raises(CommandError, match="File exists; name a new file"):
        call_command("export_audit", str(exported))


def test_the_page_shows_the_last_seal(sealed: None, admin: User) -> None:
    assert str(chain.head()) in browser(admin).get("/audit/").content.decode()
