"""The disk image that all machines start from, built with debootstrap from this machine's own Debian mirror."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.lab.machines import guest
from tests.lab.machines.lab import LAB, MACHINES, SBIN, LabError, emulator_pid, locked, public_key, require_programs

IMAGE = LAB / "image"
DISK, KERNEL, INITRD, STAMP = (IMAGE / name for name in ("disk.raw", "vmlinuz", "initrd", "stamp"))
PARTITIONED = IMAGE / "partitioned.raw"  # the same behind a partition table, which GRUB needs
LOG = LAB / "build.log"
SIZE = "4G"  # each machine's disk is larger; its file system grows into it at boot
DISK_SIZE = "48G"  # sparse: the recipe active-set writes four times the memory, and a copy of that
SECTOR, FIRST_SECTOR = 512, 2048  # GRUB is in front of the partition
STEP_S = 1800.0
# Mounts of a build end with its process, however it ends.
CHROOT = """
mount -t proc proc "$0/proc" && mount -t sysfs -o ro sysfs "$0/sys" && mount --rbind /dev "$0/dev" &&
cp -L /etc/resolv.conf "$0/etc/resolv.conf" && exec chroot "$0" "$@"
"""


def ensure_image() -> None:
    """Build the image unless it matches the recipe and the lab's key."""
    require_programs()
    stamp = _stamp()
    with locked("build"):
        if STAMP.exists() and STAMP.read_text() == stamp:
            return
        if os.geteuid() != 0:
            raise LabError("building the image needs root: sudo python -m tests.lab.machines build")
        # Disks of earlier machines are layers over the old image.
        if running := [state.name for state in MACHINES.glob("*") if emulator_pid(state)]:
            command = f"python -m tests.lab.machines down {running[0]}"
            raise LabError(f"running machines use the old image; stop them first: {command}")
        shutil.rmtree(MACHINES, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="build.", dir=LAB) as work:
            _build(Path(work), stamp)


def _stamp() -> str:
    parts = [Path(__file__).read_bytes(), Path(guest.__file__).read_bytes(), public_key().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _build(work: Path, stamp: str) -> None:
    began, root, image = time.monotonic(), work / "root", work / "image"
    root.mkdir()
    image.mkdir()
    LOG.write_text("")
    mirror, security = mirrors()
    _say(f"debootstrap (log: {LOG})")
    _run(["unshare", "--mount", "debootstrap", "--variant=minbase", guest.RELEASE, root, mirror])
    _say("installing packages")
    _install(root, mirror, security)
    _configure(root)
    _say("making the file system")
    (kernel,), (initrd,) = root.glob("boot/vmlinuz-*"), root.glob("boot/initrd.img-*")
    shutil.copy(kernel, image / KERNEL.name)
    shutil.copy(initrd, image / INITRD.name)
    _run(["mkfs.ext4", "-q", "-L", "root", "-m", "0", "-d", root, image / DISK.name, SIZE])
    _partition(image / DISK.name, image / PARTITIONED.name)
    (image / STAMP.name).write_text(stamp)
    shutil.rmtree(IMAGE, ignore_errors=True)
    image.rename(IMAGE)
    _say(f"built {IMAGE} in {time.monotonic() - began:.0f} s")


def _partition(file_system: Path, disk: Path) -> None:
    """Copy a file system into the one partition of a disk, with room for it to grow."""
    size = int(DISK_SIZE.removesuffix("G")) << 30
    entry = struct.pack("<B3sB3sII", 0x80, b"", 0x83, b"", FIRST_SECTOR, size // SECTOR - FIRST_SECTOR)
    with disk.open("wb") as file:
        file.truncate(size)
        file.seek(446)
        file.write(entry + bytes(3 * len(entry)) + b"\x55\xaa")
    start = FIRST_SECTOR * SECTOR
    _run(["dd", f"if={file_system}", f"of={disk}", f"bs={start}", "seek=1", "conv=sparse,notrunc"])


def _install(root: Path, mirror: str, security: str | None) -> None:
    sources = [f"deb {mirror} {guest.RELEASE} main", f"deb {mirror} {guest.RELEASE}-updates main"]
    sources += [f"deb {security} {guest.RELEASE}-security main"] if security else []
    _write(root, {"etc/apt/sources.list": "\n".join(sources) + "\n", **guest.FIRST})
    _write(root, {guest.NO_SERVICES: "#!/bin/sh\nexit 101\n"}, mode=0o755)
    _in_root(root, "apt-get", "-q", "update")
    _in_root(root, "apt-get", "-qy", "dist-upgrade")
    _in_root(root, "apt-get", "-qy", "install", *guest.PACKAGES)
    _in_root(root, "sh", "-c", guest.DOWNLOAD_OTHER_KERNEL)
    _in_root(root, "sh", "-c", guest.DOWNLOAD_SYSTEMD_BOOT)
    _in_root(root, "apt-get", "clean")


def _configure(root: Path) -> None:
    for command in guest.COMMANDS:
        _in_root(root, *command)
    _write(root, guest.FILES)
    _write(root, {f"home/{guest.USER}/.ssh/authorized_keys": public_key()}, mode=0o600)
    _in_root(root, "chmod", "700", f"/home/{guest.USER}/.ssh")
    _in_root(root, "chown", "-R", f"{guest.USER}:{guest.USER}", f"/home/{guest.USER}/.ssh")
    _in_root(root, "chmod", "440", f"/etc/sudoers.d/{guest.USER}")
    for pattern in ("etc/ssh/ssh_host_*_key*", guest.NO_SERVICES, "var/log/*.log"):
        for path in root.glob(pattern):
            path.unlink()
    shutil.rmtree(root / "var/lib/apt/lists")
    # The last command in the root leaves its own resolver behind.
    _write(root, {"etc/resolv.conf": guest.FILES["etc/resolv.conf"]})


def mirrors() -> tuple[str, str | None]:
    """The Debian mirror and the mirror of its security updates that this machine's apt uses."""
    own = os.environ.get("PROVING_LAB_MIRROR")
    if own:
        return own, None
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sources = [line.split() for line in shown.splitlines()]
    main = [uri for uri, release, component in sources if component == "main" and re.search(r"/debian/?$", uri)]
    security = [uri for uri, release, component in sources if component == "main" and release.endswith("-security")]
    if not main:
        raise LabError("apt has no Debian mirror here: set PROVING_LAB_MIRROR to the URL of one")
    return main[0], security[0] if security else None


def _in_root(root: Path, *command: str) -> None:
    settings = {"PATH": f"/usr/bin:/bin:{SBIN}", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    _run(["unshare", "--mount", "sh", "-c", CHROOT, root, *command], env={**settings, **proxies})


def _run(command: Iterable[str | Path], env: dict[str, str] | None = None) -> None:
    argv = [str(word) for word in command]
    environment = env or {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{SBIN}"}
    with LOG.open("a") as log:
        code = subprocess.run(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=STEP_S, check=False
        ).returncode
    if code:
        tail = "\n".join(LOG.read_text(errors="replace").splitlines()[-15:])
        raise LabError(f"{tail}\nfailed with exit code {code}: {' '.join(argv)} (log: {LOG})")


def _write(root: Path, files: dict[str, str], mode: int = 0o644) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)


def _say(line: str) -> None:
    sys.stderr.write(f"lab: {line}\n")
    sys.stderr.flush()
