"""Fetch the events and files of a job from the agent, and let the agent delete them."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.campaigns.execution import received
from apps.campaigns.execution.received import ARTEFACT_BYTES
from apps.campaigns.models import Artefact, Run, RunPart
from apps.hosts.access import ssh
from common.errors import AgentError, ProvingError

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
READ_BYTES = 1 << 20
MAX_LINE = 8 << 20
MAX_PARTS = 20  # reads for one line: the longest takes nine from an honest agent
MOST_FORGOTTEN = 50  # runs, in one contact
# Files that are stored together. The statement holds their bytes again, as text.
BATCH_FILES, BATCH_BYTES = 50, 4 << 20
MOST_NAMED = 5  # files in a message


def read_lines(job: Run | RunPart, link: ssh.Link, **how: Any) -> tuple[bytes, bool]:
    """Return whole lines of new events, and whether the job is sealed and these are the last ones.

    A line longer than one read is read to its end, as far as it is there; each read may wait for more of it. In a
    sealed job, a last line without an end is damaged and counts as a line. UnusableError for a line that is too long,
    or comes in too many parts: it would be read again for ever."""
    data = bytearray()
    for _ in range(MAX_PARTS):
        request: dict[str, Any] = {
            "path": "events.ndjson",
            "offset": job.events_offset + len(data),
            "limit": READ_BYTES,
        }
        chunk = link.call("read", run=str(job.pk), **request, **how)
        read = _data(job, chunk)
        data += read
        if len(data) > MAX_LINE:
            raise received.unusable(f"agent on {job.host}", ValueError(f"an event of more than {MAX_LINE} bytes"))
        last = chunk["sealed"] and job.events_offset + len(data) >= chunk["size"]
        if excess := received.excess(job.events_offset + len(data), job.last_seq, _age_s(job)):
            raise received.unusable(f"agent on {job.host}", ValueError(excess))
        whole = data if last else data[: data.rfind(b"\n") + 1]
        if whole or last or not read:
            return bytes(whole), last
        how = {**how, "gather": False}
    raise received.unusable(f"agent on {job.host}", ValueError(f"an event in more than {MAX_PARTS} parts"))


def _age_s(job: Run | RunPart) -> float:
    """Seconds since the start of the run, by the server's clock; 0 if it has not started."""
    run = job if isinstance(job, Run) else job.run
    return (timezone.now() - run.started_at).total_seconds() if run.started_at else 0.0


def _data(job: Run | RunPart, chunk: dict[str, Any]) -> bytes:
    """The bytes of an answer to `read`; UnusableError if it is not base64, or more than was requested."""
    try:
        read = base64.b64decode(chunk["data"], validate=True)
    except ValueError as error:
        raise received.unusable(f"agent on {job.host}", error) from error
    if len(read) > READ_BYTES:
        raise received.unusable(f"agent on {job.host}", ValueError(f"{len(read):,} bytes, {READ_BYTES:,} requested"))
    return read


def events_of(job: Run | RunPart, whole: bytes) -> tuple[list[dict[str, Any]], int]:
    """(the fields of each event in these lines, how many lines are damaged on the host's disk or break the rules).
    UnusableError beyond a quota of the run."""
    agent, count = f"agent on {job.host}", whole.count(b"\n")
    if count > max(received.MAX_DAMAGED, len(whole) / received.MIN_LINE_BYTES):
        raise received.unusable(agent, ValueError(f"{count:,} lines of events in {len(whole):,} bytes"))
    lines = whole.split(b"\n")[: None if whole[-1:] != b"\n" else -1]
    events = [event for event in map(received.event, lines) if event]
    damaged = len(lines) - len(events)
    if damaged:
        log.warning("%s: %d of %d events are damaged", agent, damaged, len(lines))
    if job.events_damaged + damaged > received.MAX_DAMAGED:
        message = f"{job.events_damaged + damaged:,} damaged events, at most {received.MAX_DAMAGED:,}"
        raise received.unusable(agent, ValueError(message))
    newest = max((event["seq"] for event in events), default=0)
    if excess := received.excess(0, newest, _age_s(job)):
        raise received.unusable(agent, ValueError(excess))
    return _once(events), damaged


def _once(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events without repeated numbers."""
    return list({event["seq"]: event for event in reversed(events)}.values())[::-1]


def ending(job: Run | RunPart, manifest: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Return (outcome, error) once its files are stored. A job with damaged events or files has failed, because its
    result would be incomplete."""
    lost = max(job.events_damaged, manifest["last_seq"] - job.last_seq)
    rotten = list(job.artefacts.filter(content=None, size__lte=ARTEFACT_BYTES).values_list("path", flat=True))
    if not lost and not rotten:
        return manifest["outcome"], manifest["error"]
    message = f"only {manifest['last_seq'] - lost} of {manifest['last_seq']} events are complete"
    if not lost:
        more = f" and {len(rotten) - MOST_NAMED} more" if len(rotten) > MOST_NAMED else ""
        message = f"{', '.join(rotten[:MOST_NAMED])}{more}: not what it was when the run ended"
    error = AgentError(f"agent on {job.host}", message, hint="check the disk that holds its spool, then repeat the run")
    return Run.Outcome.FAILED, error.as_dict()


def prepare(job: Run | RunPart, link: ssh.Link) -> None:
    """Let the agent of a sealed job read its files for `bring` while its last events are stored."""
    link.ask("collect", **_small_files(job))


def _small_files(job: Run | RunPart) -> dict[str, Any]:
    return {"run": str(job.pk), "limit": READ_BYTES}


def bring(job: Run | RunPart, link: ssh.Link, hold: Callable[[], None]) -> tuple[bytes, dict[str, Any]]:
    """(manifest.json, its content) of a sealed job, once the files that it names are stored. `hold` raises
    ClaimLostError, in the transaction of each batch, if another worker follows the job. UnusableError for a manifest
    that breaks the rules.

    A run may have 256 MiB of files and a dispatcher follows many runs, so files are stored in batches of bounded size.
    An interrupted transfer continues where it ended."""
    answer = link.call("collect", **_small_files(job))["files"]
    small = {path: base64.b64decode(data) for path, data in answer.items()}
    sealed = small.pop(MANIFEST, b"") or fetch(job, link, MANIFEST, ARTEFACT_BYTES)
    manifest = received.manifest(sealed, f"agent on {job.host}")
    owner = owner_of(job)
    missing = _missing(job, manifest)
    for batch in _batches(job, link, missing, small):
        with transaction.atomic():
            hold()
            Artefact.objects.bulk_create([Artefact(**owner, **file) for file in batch])
    return sealed, manifest


def owner_of(job: Run | RunPart) -> dict[str, Any]:
    """The column with the owner of an event or an artefact."""
    return {"run": job} if isinstance(job, Run) else {"part": job}


def _missing(job: Run | RunPart, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The files that the manifest names and that are not stored. Deletes stored ones that it does not name: an earlier
    manifest did, and they are beyond what a run may store."""
    named = {(file["path"], file["sha256"]) for file in manifest["files"]}
    stored = {(path, sha256): pk for pk, path, sha256 in job.artefacts.values_list("pk", "path", "sha256")}
    others = [pk for file, pk in stored.items() if file not in named]
    job.artefacts.filter(pk__in=others).delete()
    return [file for file in manifest["files"] if (file["path"], file["sha256"]) not in stored]


def _batches(
    job: Run | RunPart, link: ssh.Link, files: list[dict[str, Any]], small: dict[str, bytes]
) -> Iterator[list[dict[str, Any]]]:
    """The fields of these files, to be stored together."""
    batch: list[dict[str, Any]] = []
    size = 0
    for file in files:
        batch.append(_with_content(job, link, file, small))
        size += len(batch[-1].get("content") or b"")
        if len(batch) == BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _with_content(job: Run | RunPart, link: ssh.Link, file: dict[str, Any], small: dict[str, bytes]) -> dict[str, Any]:
    """A file of the manifest; its content is None if it is damaged on the host's disk, and absent if it is large."""
    fields = {name: file[name] for name in ("path", "size", "sha256")}
    if file["size"] <= ARTEFACT_BYTES:
        content = small.get(file["path"]) if file["size"] else b""
        if content is None:
            content = fetch(job, link, file["path"], file["size"])
        fields["content"] = content if hashlib.sha256(content).hexdigest() == file["sha256"] else None
    return fields


def fetch(job: Run | RunPart, link: ssh.Link, path: str, limit: int) -> bytes:
    """Return the first `limit` bytes of a file of a job. UnusableError for one that arrives so slowly that it would
    take hours."""
    parts, calls = bytearray(), 0
    while True:
        calls += 1
        if calls > 10 + 2 * limit // READ_BYTES:
            raise received.unusable(f"agent on {job.host}", ValueError(f"{path} comes in {calls} parts"))
        chunk = link.call("read", run=str(job.pk), path=path, offset=len(parts), limit=READ_BYTES, wait_s=0)
        read = _data(job, chunk)
        parts += read
        if not read and len(parts) < min(chunk["size"], limit):
            message = f"{path} ended after {len(parts)} bytes of {chunk['size']}"
            raise AgentError(f"agent on {job.host}", message, hint="the server will try again")
        if len(parts) >= min(chunk["size"], limit):
            return bytes(parts)


def forget(link: ssh.Link, run_id: str, sealed: bytes) -> None:
    """Let the agent delete what is stored here. If this fails, the next contact repeats it, and the run has ended
    anyway."""
    try:
        link.call("ack", run=run_id, manifest=hashlib.sha256(sealed).hexdigest())
        if json.loads(sealed)["clean"]:
            link.call("purge", run=run_id)
    except ProvingError as error:
        log.warning("run %s stays in the spool: %s", run_id, error)


def forget_ended(link: ssh.Link) -> None:
    """Let the agent delete ended runs whose worker died before it could ask for that. Only if the manifests are
    equal."""
    if not link.hello["sealed"]:
        return
    known: dict[str, Any] = {"pk__in": link.hello["sealed"], "manifest__clean": True}
    known["host__machine_id"] = link.hello["machine_id"]
    for run in [*Run.objects.filter(**known)[:MOST_FORGOTTEN], *RunPart.objects.filter(**known)[:MOST_FORGOTTEN]]:
        sealed = fetch(run, link, MANIFEST, ARTEFACT_BYTES)
        with suppress(received.UnusableError):
            if received.manifest(sealed, f"agent on {run.host}") == run.manifest:
                forget(link, str(run.pk), sealed)
