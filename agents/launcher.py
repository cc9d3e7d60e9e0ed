#!/usr/bin/python3 -I
"""proving-agent: starts an agent as root only if its signature is valid. Installed by an admin; see docs/hosts.md.

proving-agent install                     verify the signed agent on stdin and keep it
proving-agent run SHA256 VERB [ARGUMENT]  verify that agent again and start it

CONFIG  signers: public keys, as ALLOWED SIGNERS of ssh-keygen(1); revoked, optional: keys not trusted any more;
        policy.json, optional: what the agent must not do
STORE   SHA256.pyz, SHA256.statement and SHA256.sig of each agent; newest: the highest serial that was ever installed

A statement is "proving-agent 1 SERIAL SHA256". Its signature covers it, and it covers the agent. On stdin stand the
sizes of statement, signature and agent in one line, then the three. This file uses nothing of the agent.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys

CONFIG = "/etc/proving-agent"
STORE = "/var/lib/proving-agent"
SIGNER, NAMESPACE = "proving-ground", "proving-agent"
STATEMENT = re.compile(rb"proving-agent 1 ([0-9]{1,18}) ([0-9a-f]{64})\n")
MOST_BYTES = 16 << 20
SEND = 66  # exit status: this agent is missing, damaged or older; send it again with a new signature
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def stop(message: str, status: int = 1) -> "SystemExit":
    sys.stderr.write(f"proving-agent: {message}\n")
    return SystemExit(status)


def check_owner(path: str) -> None:
    """Only root can change what is there: `path` and each directory above it."""
    place = os.path.realpath(path)
    while True:
        about = os.lstat(place)
        if about.st_uid != 0 or (about.st_mode & 0o022 and not about.st_mode & 0o1000):
            raise stop(f"{place} must belong to root, and no other account can be allowed to write to it")
        if place == "/":
            return
        place = os.path.dirname(place)


def read(name: str) -> bytes:
    try:
        with open(os.path.join(STORE, name), "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise stop(f"{name} is not in {STORE}", SEND) from None


def write(name: str, data: bytes) -> None:
    """A reader, or a power cut, finds the old file or the new one."""
    path = os.path.join(STORE, name)
    with open(f"{path}.new", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def newest() -> int:
    return int(read("newest")) if os.path.exists(os.path.join(STORE, "newest")) else 0


def verify(statement: bytes, signature: str, agent: bytes, status: int) -> "tuple[int, str]":
    """(serial, sha256) of what is signed. Exits with `status` unless a trusted key signed exactly this agent."""
    argv = ["ssh-keygen", "-Y", "verify", "-f", f"{CONFIG}/signers", "-I", SIGNER, "-n", NAMESPACE, "-s", signature]
    for name in ("signers", "revoked", "policy.json"):
        if os.path.exists(f"{CONFIG}/{name}"):
            check_owner(f"{CONFIG}/{name}")
    if os.path.exists(f"{CONFIG}/revoked"):
        argv += ["-r", f"{CONFIG}/revoked"]
    done = subprocess.run(argv, input=statement, capture_output=True, env={"PATH": PATH}, timeout=30)
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace").strip()[-300:]
        raise stop(f"the signature is not from a trusted key, or the key was revoked: {output}", status)
    signed = STATEMENT.fullmatch(statement)
    if signed is None or signed[2].decode() != hashlib.sha256(agent).hexdigest():
        raise stop("the signature belongs to another agent", status)
    return int(signed[1]), signed[2].decode()


def install() -> None:
    """Keep what stdin holds. Everything is verified in a file that only root can change, before it gets its name."""
    sizes = [int(size) for size in sys.stdin.buffer.readline(64).split()]
    if len(sizes) != 3 or not 0 <= sum(sizes) <= MOST_BYTES or min(sizes) < 0:
        raise stop(f"expected the sizes of statement, signature and agent, together at most {MOST_BYTES} bytes")
    statement, signature, agent = (sys.stdin.buffer.read(size) for size in sizes)
    lock = os.open(os.path.join(STORE, "lock"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    write("incoming.sig", signature)
    serial, sha256 = verify(statement, os.path.join(STORE, "incoming.sig"), agent, 1)
    if serial < newest():
        raise stop(f"serial {serial} is older than {newest()}, which is installed here")
    for suffix, data in (("pyz", agent), ("sig", signature), ("statement", statement)):
        write(f"{sha256}.{suffix}", data)
    write("newest", b"%d" % serial)


def run(sha256: str, arguments: "list[str]") -> None:
    """Become the agent. An older one only continues a run that it accepted: systemd starts it, and never sudo."""
    statement, agent = read(f"{sha256}.statement"), read(f"{sha256}.pyz")
    signature = os.path.join(STORE, f"{sha256}.sig")
    serial, signed = verify(statement, signature, agent, SEND)
    if signed != sha256:
        raise stop("the signature belongs to another agent", SEND)
    if serial < newest() and (arguments[0] != "run" or "SUDO_UID" in os.environ):
        raise stop(f"serial {serial} is older than {newest()}, which is installed here", SEND)
    environment = {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "PROVING_AGENT_LAUNCHER": os.path.realpath(__file__),
        "PROVING_AGENT_POLICY": f"{CONFIG}/policy.json",
    }
    program = os.path.join(STORE, f"{sha256}.pyz")
    os.umask(0o022)
    os.execve(sys.executable, [sys.executable, "-I", program, *arguments], environment)


def main(arguments: "list[str]") -> None:
    if os.geteuid() != 0:
        raise stop("start it as root, through sudo")
    os.umask(0o077)
    os.makedirs(STORE, mode=0o700, exist_ok=True)
    check_owner(CONFIG)
    check_owner(STORE)
    if arguments == ["install"]:
        install()
    elif len(arguments) > 2 and arguments[0] == "run" and re.fullmatch("[0-9a-f]{64}", arguments[1]):
        run(arguments[1], arguments[2:])
    else:
        raise stop("usage: proving-agent install | proving-agent run SHA256 VERB [ARGUMENT]...")


if __name__ == "__main__":
    main(sys.argv[1:])
