"""The protocol between server and agent, and its messages. Both sides import this file.

One SSH connection carries frames on the agent's stdin and stdout:

    b"\\nPGF1" | length (4 bytes, big endian) | crc32 of the payload (4 bytes) | payload (UTF-8 JSON)

Bytes before the first magic are skipped: a .bashrc may greet. After that, anything that is not a frame is an error.

Requests   {"id": n, "verb": v, "args": {...}}
Answers    {"id": n, "ok": true, "result": {...}} or {"id": n, "ok": false, "error": Failure}
Failure    {"blame": "plan|host|agent|workload", "message": str, "hint": str, ...}

Verbs      args -> result
hello      {} -> Hello
facts      {"pg_bin_dirs": [dir], "pg_data_dirs": [dir of a cluster]} -> the host as the package facts reads it
health     {"paths": [dir]} -> how it is, as health.py reads it: room for each directory, clock, heat, a restart due
discover   {"settings": {name: wanted or null}} -> {name: {"value", "keys", "refused"}}: what the setting finds now,
           what each file reads now that `wanted` would write, and the Failure where this host cannot have it
parameters {"clusters": [cluster of the facts], "names": [parameter]} -> [{"name" and "data_dir" of the cluster,
           "settings": {parameter: {"setting", "unit", "vartype", "source", "sourcefile", "sourceline",
           "pending_restart", "show"} as pg_settings has it, or null where there is none; without those that we may
           not see}, "refused": null, or the Failure why it could not be asked}]
check      {"steps": as in a Spec, "bin_dir": dir of the target or ""} -> {"failures": [Failure + {"step", "script": its
           name or "", "line" or null, "said": the tool's own words}]}; each tool parses its scripts, nothing runs
remote     {"server": {"addresses", "port", "database", "user", "sslmode"}, "bin_dir": of psql, "access": as in submit}
           -> {"version", "system_identifier", "timeline", "started": s since 1970, "standby", "address": its own,
           "superuser", "createdb", "tls": version or "", "client": major of psql, "settable": {"session", "system":
           [parameter]}, "restart": [parameter], "extensions": {"installed", "available": [name]}, "round_trip_ms":
           {"min", "median"}}: a check of a remote server, which changes nothing there
submit     Job -> Status. The same uuid again answers the current state; with another digest it is refused.
           With "keep_boot", a run that ends ok leaves its kernel parameters to the next one, see kept_boot.py.
           "access" is what machines of one run let each other in by: {"password", "database"}, kept in the job's
           directory, and never part of its evidence; of a remote_server {"password", "ca", "certificate", "key"},
           "" for none. It is removed after the restore
status     {"run": uuid} -> Status
read       {"run", "path", "offset", "limit", "wait_s", "gather"} -> {"data": base64, "size": bytes, "sealed": bool}
           waits up to wait_s (<= 10) for bytes past offset; with gather, until then all the same unless limit is
           reached or the run sealed. Another request ends the wait; path is relative to the job's directory
collect    {"run", "limit": bytes} -> {"files": {path: base64}}: of a sealed run manifest.json and the files it names,
           as many as fit together; what is left is for read
nudge      {} -> {}; a read that waits returns at once
cancel     {"run": uuid} -> Status; sets the flag, the session does the rest
finish     {"run": uuid} -> Status; tells a job that serves others that they are done with it
ack        {"run": uuid, "manifest": sha256 of manifest.json} -> Status
restore    {} -> {"recovered": [Status + {"did": [what was ended and put back, in words]}]}; jobs that died are rolled
           back and sealed as interrupted, those left dirty are tried again, one after a planned restart goes on
end_boot   {} -> {"recovered": as in restore}; restarts a host whose last run left its boot, see kept_boot.py
install    {} -> {"written": [path]}; units.py. Level root where systemd is PID 1
uninstall  {} -> {"removed": [path]}; refused while a run is not sealed, or a boot is kept
purge      {"run": uuid} -> {}; only what was acknowledged

Job        {"run": uuid, "epoch": int, "digest": digest(spec), "spec": Spec, "access": {...} where it needs others,
            "keep_boot": bool, absent for false}
Spec       {"version": 1,
            "target": {"kind": "private", "bin_dir": dir of postgres and initdb, "data_dir": absolute dir for clusters,
                       "os_user": account that runs PostgreSQL when we are root ("" = choose)}, or
                      {"kind": "existing", "bin_dir", "data_dir", "config_file", "port", "os_user": its owner,
                       "unit": service of systemd ("" = pg_ctl), "include": file that we may write ("" = none),
                       "consent": {"measure": bool, "restart": bool, "disturb_clients": bool}}, or
                      {"kind": "remote", "bin_dir": dir of psql and pgbench, "data_dir": dir for files of the load,
                       "os_user", "address", "port": of the server that another job has listen}, or
                      {"kind": "standby", "bin_dir", "data_dir", "os_user", "address", "port": of the primary, "name":
                       of its slot and its application_name}, or
                      {"kind": "remote_server", "bin_dir": dir of psql and pgbench, "data_dir", "os_user": of the load,
                       "name", "addresses": [name or address], "port", "database", "user", "sslmode", "wait_s": how
                       long to wait until a user has changed parameters that SQL cannot set; if 0 or absent, they are
                       refused, "use_database": use a schema in "database" instead of creating a database},
                      or null (no PostgreSQL),
            "os_user": without PostgreSQL, the account of the load when we are root (absent or "" = choose),
            "serve": {"limit_s": how long to wait for `finish`} of a standby; of a private target also {"listen",
                      "port", "clients": [address], "standbys": [{"name", "address"}], "writes": whether clients do}.
                      A job of steps serves while they run, one without until `finish`,
            "settings": {name in SETTINGS: wanted, valid against its schema},
            "dataset": {"name", "kind": name in DATASETS, "options": valid against its schema, "reset": "auto|copy|
                        reinit|keep" for runs that write, "ensure": "present|absent", "fingerprint" of an absent one},
                        or null. There and pristine before the first step, in the target's database of the load.
                        Without steps the run only makes it, or has it removed,
            "steps": [{"name", "role": one of ROLES (measure where absent), "kind": name in WORKLOADS,
                       "options": valid against its schema,
                       "until": {"window_s", "within"} of a warm one that ends by itself once it is steady; steady.py}],
            "collect": {"interval_s": 1, "sources": [name in COLLECTORS]},
            "allowed_paths": [{"kind": "clusters|directory|file|device", "path"}], where steps may write; paths.py}
           All steps are looked at; those of role measure yield results. A step of kind "reboot", options
           {"limit_s": 1800}, restarts the host: the state is REBOOTING until the next boot, where settings are applied
           and verified anew and the following step runs. If that takes longer than limit_s, or the run is cancelled or
           dies again, it is restored and sealed. The setting kernel_command_line boots the host before anything else,
           and restarts it before the run is sealed: the state is REBOOTING both times.

Hello      {"agent": sha256 of the zipapp, "version", "commit": of the server that built it,
            "protocol": 1, "python": "3.11.2", "level": "root|user", "machine_id",
            "boot_id", "epoch": highest seen, "busy": uuid of an unsealed run or null,
            "supervisor": "systemd|detached", "units": "current|outdated|absent|unavailable",
            "dirty": [uuid], "conflicts": [uuid of each that left a value of another user], "sealed": [uuid of each
            that ended and is not purged],
            "recovered": what this contact restored, as in the result of restore,
            "wall": s, "mono": s}
Status     {"run", "state": State, "step": name or "", "outcome": Outcome or "", "alive": bool, "last_seq": int,
            "error": Failure or null, "clean": bool or null, "conflicts": as in manifest.json}

events.ndjson holds one Event a line: {"seq": 1.., "boot_id", "wall": s since 1970, "mono": s, "kind", "data", "crc":
crc32 of the canonical JSON of the rest}. Kinds and their data:

state      {"state", "step"}
progress   {"step", "done": 0..1, "eta_s": s or null, "note"}
sample     {"step", "source": "pgbench|latency|cpu|...", "t": s since the step began, "values": {column: number}}
measuring  {"step", "began": wall s}; its load is about to start
measured   {"step", "began": wall s, "ended": wall s, "costs": {source or "proofs": {"samples", "wall_s", "cpu_s",
           "apart_s": cpu time in processes that help}}}; when the load of a step has ended
command    {"purpose", "argv": [...], "env": {...}}
write      {"setting", "key", "original", "wanted", "found"}
proof      {"setting", "phase": "before|during|after|restored", "subject", "wanted", "found", "ok": bool,
           "evidence": {...}}
dataset    {"fingerprint", "home": the cluster's directory ("" = an existing one), "name", "kind", "options", "major",
           "database", "state": "preparing|pristine|dirty|absent", "size": bytes, "seconds": [[step, s]],
           "made_by": run, "made_at": wall s, "relations": {name: {"bytes", "rows": as the planner has it}}: the
           largest, "used": {"means": "pristine|clone|copy|reinit|keep|prepared|removed", "reason", "seconds",
           "wrote": bool or null} or null}; whenever one of these has changed
listening  {"address", "port", "database"}; standbys may be made from it
serving    the same, or {} of a standby; standbys stream and synchronous_standby_names is in effect: clients may come
waiting    {"changes": [{"name": parameter, "wanted", "found", "pending_restart": bool}], "limit_s"}: what a user has to
           change on a remote server before the run continues; again after each change
released   {}; nothing waits for standbys any more: they may go
log        {"level": "info|warning|error", "message"}; when a warm-up until steady has ended also "steady": {"reached":
           bool, "after_s", "window_s", "windows", "left_out", "mean", "drift", "within"}
outcome    {"outcome", "error": Failure or null}

out/<step>/load.json, of pgbench: {"loop": "closed|open", "random_seed": what was used, "rate": transactions/s where
           a share of an earlier step's was asked for}

out/<step>/latency.json, of pgbench with log: reduced; times in us:
           {"version": 1, "loop": "closed|open", "sampling_rate": share of the transactions that were logged,
            "lines": read, "unread": damaged, "all": Latencies, "scripts": [Latencies + {"name"}],
            "lag": Histogram of the schedule lag, where there is a rate, else null,
            "retried": transactions, "retries": tries beyond the first; null without max_tries,
            "slots": {"width_s": s, "rows": [[first second since 1970, [[bucket, times]...]]...]}}
           Histogram   {"count", "sum", "min", "max", "buckets": [[bucket, times]...]}; histogram.py tells what a
                       bucket of 7 bits holds; those of slots have 4
           Latencies   Histogram + {"words": {"skipped|failed|serialization|deadlock": transactions without one}}

manifest.json: {"run", "digest", "agent", "outcome", "error", "clean", "conflicts": [{"key","original","ours","found"}],
            "last_seq", "timings": {state: s}, "files": [{"path", "size", "sha256"}]}
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import Any, Iterator

VERSION = 1
MAGIC = b"\nPGF1"
HEADER = struct.Struct(">II")
MAX_PAYLOAD = 8 * 1024 * 1024
MAX_GREETING = 256 * 1024

VERBS = (
    "hello", "facts", "health", "discover", "parameters", "check", "remote", "submit", "status", "read", "collect",
    "nudge", "cancel", "finish", "ack", "restore", "end_boot", "purge", "install", "uninstall",
)  # fmt: skip

STATES = (
    "RECEIVED",
    "APPLYING",
    "WAITING",
    "VERIFIED",
    "RUNNING",
    "REBOOTING",
    "ROLLING_BACK",
    "CLEAN",
    "DIRTY",
    "SEALED",
    "ACKED",
)
REBOOT = "reboot"  # the kind of step that is no workload
BOOT = "kernel_command_line"  # the setting that boots the host
ROLES = ("prepare", "warm", "measure", "cool")
WARM, MEASURE, COOL = "warm", "measure", "cool"
OUTCOMES = ("ok", "failed", "cancelled", "interrupted", "not_in_effect")

Json = Any


class WireError(Exception):
    """The byte stream violates the protocol; the connection cannot be used any more."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: Json) -> bytes:
    """JSON with one spelling only: sorted keys, no spaces, UTF-8."""
    return _CANONICAL.encode(value).encode()


def digest(value: Json) -> str:
    """sha256 in hex of the canonical JSON; names specs, revisions, evidence."""
    return hashlib.sha256(canonical(value)).hexdigest()


def checksum(record: dict[str, Json]) -> int:
    """crc32 of a spool record without its own "crc" key."""
    return zlib.crc32(canonical({k: v for k, v in record.items() if k != "crc"}))


def sealed(record: dict[str, Json]) -> bytes:
    """The canonical JSON of a record and its "crc", without spelling it out twice."""
    parts = [canonical({k: v for k, v in record.items() if (k < "crc") is first})[1:-1] for first in (True, False)]
    crc = zlib.crc32(b"{" + b",".join(filter(None, parts)) + b"}")
    return b"{" + b",".join(filter(None, [parts[0], b'"crc":%d' % crc, parts[1]])) + b"}"


def encode(message: Json) -> bytes:
    """One frame. WireError when the payload is larger than MAX_PAYLOAD."""
    payload = canonical(message)
    if len(payload) > MAX_PAYLOAD:
        raise WireError(f"a frame of {len(payload)} bytes; at most {MAX_PAYLOAD} are allowed")
    return MAGIC + HEADER.pack(len(payload), zlib.crc32(payload)) + payload


class FrameReader:
    """Turns received bytes into messages: call `feed(bytes)` and iterate over the complete messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._synchronised = False
        self.greeting = b""

    def feed(self, data: bytes) -> Iterator[Json]:
        """Yield each complete message. WireError on a bad checksum, an absurd length, or noise between frames."""
        self._buffer += data
        return self._messages()

    def _messages(self) -> Iterator[Json]:
        if not self._synchronised and not self._skip_greeting():
            return
        while True:
            message = self._take()
            if message is None:
                return
            yield message[0]

    def _skip_greeting(self) -> bool:
        at = self._buffer.find(MAGIC)
        if at < 0:
            if len(self._buffer) > MAX_GREETING:
                raise WireError(f"no frame in the first {MAX_GREETING} bytes: {bytes(self._buffer[:200])!r}")
            return False
        self.greeting = bytes(self._buffer[:at])
        del self._buffer[:at]
        self._synchronised = True
        return True

    def _take(self) -> tuple[Json] | None:
        start = len(MAGIC) + HEADER.size
        if not self._buffer.startswith(MAGIC[: len(self._buffer)]):
            raise WireError(f"noise between frames: {bytes(self._buffer[:80])!r}")
        if len(self._buffer) < start:
            return None
        length, crc = HEADER.unpack_from(self._buffer, len(MAGIC))
        if length > MAX_PAYLOAD:
            raise WireError(f"a frame announces {length} bytes; at most {MAX_PAYLOAD} are allowed")
        if len(self._buffer) < start + length:
            return None
        payload = bytes(self._buffer[start : start + length])
        if zlib.crc32(payload) != crc:
            raise WireError("a frame failed its checksum")
        del self._buffer[: start + length]
        return (json.loads(payload),)
