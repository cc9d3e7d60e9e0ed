"""Whether a block device may be overwritten: one that is in use, or that has content, never is.

Magic numbers are those of the kernel's headers and of each format's description; blkid is also run if it is installed.
"""

from __future__ import annotations

import os
import stat
from typing import Iterator, Optional

from ..errors import HostFailure
from .system import System

HINT = "a device must be empty before it is overwritten: wipefs lists and removes signatures"
KIB, MIB = 1024, 1024**2
# (name, offset in bytes, magic number). A format with several possible offsets has several rows.
MAGIC: tuple[tuple[str, int, bytes], ...] = (
    ("a partition table (MBR), or a file system with a similar beginning", 510, b"\x55\xaa"),
    *(("a partition table (GPT)", offset, b"EFI PART") for offset in (512, 4096)),
    ("ext2, ext3 or ext4", 0x438, b"\x53\xef"),
    ("xfs", 0, b"XFSB"),
    ("btrfs", 0x10040, b"_BHRfS_M"),
    ("f2fs", 1024, b"\x10\x20\xf5\xf2"),
    ("ntfs", 3, b"NTFS    "),
    ("exfat", 3, b"EXFAT   "),
    ("iso9660", 32769, b"CD001"),
    ("jfs", 32768, b"JFS1"),
    ("nilfs2", 1030, b"\x34\x34"),
    ("gfs2", 65536, b"\x01\x16\x19\x70"),
    *(("ocfs2", block * 2, b"OCFSV2") for block in (512, KIB, 2 * KIB, 4 * KIB)),
    ("squashfs", 0, b"hsqs"),
    ("erofs", 1024, b"\xe2\xe1\xf5\xe0"),
    ("bcachefs or bcache", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("bcachefs", 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    *(("a physical volume of LVM", sector * 512, b"LABELONE") for sector in range(4)),
    ("LUKS", 0, b"LUKS\xba\xbe"),
    *(("LUKS", offset * KIB, b"SKUL\xba\xbe") for offset in (16, 32, 64, 128, 256, 512, KIB, 2 * KIB, 4 * KIB)),
    *(("a member of an md array", offset, b"\xfc\x4e\x2b\xa9") for offset in (0, 4096)),
    *(("swap", page - 10, mark) for page in (4 * KIB, 16 * KIB, 64 * KIB) for mark in (b"SWAPSPACE2", b"SWAP-SPACE")),
    ("a disk of Oracle ASM", 32, b"ORCLDISK"),
    ("bluestore of Ceph", 0, b"bluestore block device"),
    ("VDO", 0, b"dmvdo001"),
    ("dm-integrity", 0, b"integrt"),
    # A pool of ZFS: uberblocks from 128 KiB into its label, each in a place of 1 to 8 KiB, in either order of bytes.
    *(("a pool of ZFS", 128 * KIB + place * KIB, b"\x0c\xb1\xba\x00\x00\x00\x00\x00") for place in range(128)),
    *(("a pool of ZFS", 128 * KIB + place * KIB, b"\x00\x00\x00\x00\x00\xba\xb1\x0c") for place in range(128)),
)
HEAD = 4 * MIB + 4 * KIB
TAIL = 128 * KIB


def claim(system: System, path: str) -> int:
    """An exclusive descriptor of a device that may be overwritten: while it is open, it cannot be mounted. HostFailure
    with the reason if it may not."""
    name = sys_name(system, path)
    reason = next(_users(system, path, name), "")
    if reason:
        raise _refused(path, reason)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_EXCL)
    except OSError as error:
        raise _refused(path, f"it cannot be opened exclusively: {error.strerror}") from error
    held = holds(descriptor) or _blkid(system, path)
    if held:
        os.close(descriptor)
        raise _refused(path, f"it holds {held}")
    return descriptor


def empty_page_cache(path: str) -> None:
    """Write the dirty pages of a device and drop the clean ones. fio does so only as root, and without the other
    descriptor of `claim` the kernel would when the last step closes the device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _refused(path: str, reason: str) -> HostFailure:
    return HostFailure(f"{path} is not overwritten: {reason}", HINT)


def sys_name(system: System, path: str) -> str:
    """The directory in /sys of a block device, for each name of its node."""
    number = os.stat(path).st_rdev
    return os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")


def _users(system: System, path: str, name: str) -> Iterator[str]:
    """Return the users of the device, of its partitions, and of the disk that it is a partition of."""
    parts = [f"{name}/{part}" for part in system.names(name) if system.exists(f"{name}/{part}/partition")]
    if parts:
        yield f"it has partitions ({', '.join(os.path.basename(part) for part in parts)})"
    disk = [os.path.dirname(name)] if system.exists(f"{name}/partition") else []
    for each in [name, *disk]:
        holders = system.names(f"{each}/holders")
        if holders:
            yield f"{os.path.basename(each)} is part of {', '.join(holders)}"
    number = system.text(f"{name}/dev")
    yield from (f"it is mounted on {place}" for place in _mounted(system, number))
    if number in _swaps(system):
        yield "it is used as swap"
    yield from loops_of(system, path)
    yield from (f"process {pid} has it open" for pid in _openers(system, number))


def _mounted(system: System, number: str) -> list[str]:
    lines = (line.split() for line in system.text("/proc/self/mountinfo").splitlines())
    return [fields[4] for fields in lines if fields[2] == number]


def _swaps(system: System) -> list[str]:
    paths = (line.split()[0] for line in system.text("/proc/swaps").splitlines()[1:])
    return [number for number in map(_number, paths) if number]


def _number(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if stat.S_ISBLK(status.st_mode) else ""


def _openers(system: System, number: str) -> Iterator[int]:
    """Processes that have the device open, without claiming it for themselves."""
    for pid in system.names("/proc"):
        if pid.isdigit() and any(_number(f"/proc/{pid}/fd/{fd}") == number for fd in system.names(f"/proc/{pid}/fd")):
            yield int(pid)


def loops_of(system: System, path: str) -> Iterator[str]:
    """Loop devices whose content a file or device is."""
    for name in system.names("/sys/block"):
        if name.startswith("loop") and system.text(f"/sys/block/{name}/loop/backing_file") == path:
            yield f"{name} shows its contents"


def check_backing(system: System, path: str) -> None:
    """HostFailure for a file that is the content of a loop device, or swap: that may hold a file system in use."""
    swaps = [line.split()[0] for line in system.text("/proc/swaps").splitlines()[1:]]
    reason = next(loops_of(system, path), "it is used as swap" if path in swaps else "")
    if reason:
        raise _refused(path, reason)


def holds(descriptor: int) -> str:
    """Describe the contents of a device by its magic numbers; "" if they are unknown."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    head = os.pread(descriptor, min(HEAD, size), 0)
    for name, offset, magic in MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return name
    return _at_the_end(os.pread(descriptor, TAIL, max(0, size - TAIL)), size)


def _at_the_end(tail: bytes, size: int) -> str:
    """The second table of GPT is the last sector; superblocks of md 0.90 and 1.0 begin 64 to 128 and 8 to 12 KiB before
    the end, at a multiple of 64 and 4 KiB."""
    for sector in (512, 4096):
        if tail[-sector:][:8] == b"EFI PART":
            return "the second partition table of GPT"
    start = size - len(tail)
    places = ((size // (64 * KIB) - 1) * 64 * KIB, (size // 512 - 16) // 8 * 8 * 512)
    for place in places:
        if place >= start and tail[place - start :][:4] == b"\xfc\x4e\x2b\xa9":
            return "a member of an md array"
    return ""


def _blkid(system: System, path: str) -> str:
    """Return what blkid detects by probing the device; "" if it detects nothing or is missing."""
    program: Optional[str] = system.which("blkid")
    if not program:
        return ""
    probe = system.run([program, "-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE", path])
    if probe.code == 0:
        return ", ".join(probe.stdout.split()) or "a signature known to blkid"
    return "" if probe.code == 2 else f"ambiguous signatures according to blkid: {probe.stderr.strip()}"
