"""An entry of systemd-boot that starts once: a file in loader/entries, and the EFI variable LoaderEntryOneShot.

systemd-boot removes the variable before it starts the entry, so that the next boot starts the default. If no default is
configured, that is the first entry in the order of their names. Since version 250, a name with a dash in front comes
last: it is never the default while there is another entry.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import struct
from contextlib import suppress

from ...errors import HostFailure
from .. import cmdline, owned
from ..system import System
from .base import Boot, Loader

ENTRIES, NAME = "loader/entries", "-proving-ground.conf"
EFI = "/sys/firmware/efi"
VARIABLES = f"{EFI}/efivars"
_VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
ONE_SHOT = "LoaderEntryOneShot"
OURS = "# Of Proving Ground"
INITRD = "initrd"  # systemd-boot puts this parameter with a Windows path in front of the command line
OLDEST = 250
_ATTRIBUTES = 7  # non-volatile, for the boot services and the run time
_FLAGS = struct.Struct("@l")
_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80006601 | _FLAGS.size << 16, 0x40006602 | _FLAGS.size << 16, 0x10
# What another entry needs in its name to come after ours: version comparison skips the characters in between.
AFTER_OURS = re.compile(r"[^0-9A-Za-z~.^-]*[-~]")


def path_of(variable: str) -> str:
    return f"{VARIABLES}/{variable}-{_VENDOR}"


def text_of(system: System, variable: str) -> str:
    """The text of a variable of the loader, "" if it is not set."""
    return system.text(path_of(variable))[4:].replace("\0", "")


def parsed(text: str) -> dict[str, list[str]]:
    """The values of each key of an entry."""
    keys: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.strip().replace("\t", " ").partition(" ")
        if key and not key.startswith("#"):
            keys.setdefault(key, []).append(value.strip())
    return keys


def _value() -> bytes:
    return struct.pack("<I", _ATTRIBUTES) + f"{NAME}\0".encode("utf-16-le")


class SystemdBoot(Loader):
    way, title = "systemd-boot", "systemd-boot"
    fields = ("directory", "image", "initrd")
    in_place = True  # FAT

    def file(self, boot: Boot) -> str:
        return f"{boot['directory']}/{ENTRIES}/{NAME}"

    def entry(self, boot: Boot, run: str) -> str:
        options = " ".join(each for each in cmdline.words(boot["line"]) if not _is_of_loader(each))
        files = [f"linux {boot['image']}", *(f"initrd {path}" for path in boot["initrd"].split())]
        lines = [f"{OURS}, for one boot of run {run}", "title Proving Ground", *files, f"options {options}"]
        return "".join(f"{line}\n" for line in lines)

    def variable(self, boot: Boot) -> str:
        return path_of(ONE_SHOT)

    def setting(self, boot: Boot) -> list[str]:
        return ["bootctl", "set-oneshot", "--", NAME]

    def kernels(self, boot: Boot) -> str:
        return f"a kernel that has an entry in {boot['directory']}/{ENTRIES}, of this version"

    def check_free(self, variable: str) -> None:
        if _read(variable):
            hint = "restart the host, or run: bootctl set-oneshot ''"
            raise HostFailure("systemd-boot is to start another entry next, which the run would prevent", hint)

    def arm(self, variable: str, run: str) -> None:
        """FileExistsError if another entry is to start next."""
        _create(variable, _value())
        if _read(variable) != _value():
            raise OSError(errno.EIO, "the firmware has not stored the variable", variable)

    def disarm(self, variable: str) -> None:
        if _read(variable) == _value():
            _remove(variable)


def _is_of_loader(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name == INITRD and "\\" in value


def _read(variable: str) -> bytes:
    """The variable with its attributes, b"" if it is not set."""
    try:
        return owned.read(variable)
    except FileNotFoundError:
        return b""


def _create(variable: str, data: bytes) -> None:
    """Set a variable that is not set. The firmware gets it with one write."""
    descriptor = owned.new_file(variable, 0o644)
    try:
        os.write(descriptor, data)
    except OSError:
        with suppress(OSError):
            os.unlink(variable)  # an empty file, which is no variable; some kernels have removed it already
        raise
    finally:
        os.close(descriptor)


def _remove(variable: str) -> None:
    """Remove a variable that is there. Linux makes those immutable that a firmware might not start without."""
    descriptor = owned.opened(variable)
    try:
        flags = bytearray(_FLAGS.size)
        fcntl.ioctl(descriptor, _GET_FLAGS, flags)
        (present,) = _FLAGS.unpack(flags)
        if present & _IMMUTABLE:
            fcntl.ioctl(descriptor, _SET_FLAGS, _FLAGS.pack(present & ~_IMMUTABLE))
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)
    owned.remove(variable)
