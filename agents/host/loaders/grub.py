"""An entry of GRUB that starts once: the file custom.cfg beside grub.cfg, and a variable in GRUB's environment block.

GRUB shows the entry only while the variable has the run's value, and only after it has removed the variable and read
the block again. So if GRUB cannot write to the file system, it starts the default entry. The variable next_entry of
grub-reboot would stay there, and each boot would start the entry.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re

from ...errors import HostFailure
from .. import cmdline, owned
from .base import Boot, Loader

CUSTOM, ENVIRONMENT = "custom.cfg", "grubenv"
IMAGE = "BOOT_IMAGE"  # GRUB puts this parameter in front of each command line
QUOTES = "'\"\\"  # GRUB adds backslashes to these in a command line
VARIABLE = "proving_ground_run"
_HEADER, _FREE = b"# GRUB Environment Block\n", b"#"
OURS = "# Of Proving Ground"
_TEXT = (
    f"{OURS}, for one boot of run RUN"
    + """
load_env --file "${config_directory}/grubenv" VARIABLE
if [ "${VARIABLE}" = "RUN" ]; then
  unset VARIABLE
  if save_env --file "${config_directory}/grubenv" VARIABLE; then
    load_env --file "${config_directory}/grubenv" VARIABLE
    if [ -z "${VARIABLE}" ]; then
      menuentry 'Proving Ground' --unrestricted --id proving-ground {
        search --no-floppy --fs-uuid --set=root UUID
        linux 'KERNEL' PARAMETERS
        initrd 'INITRD'
      }
      set fallback="${default}"
      set default=proving-ground
    fi
  fi
fi
"""
)


def entry(run: str, uuid: str, image: str, initrd: str, line: str) -> str:
    """The text of custom.cfg. `image` and `initrd`: paths in the file system with this UUID. `line` has no QUOTES."""
    parameters = " ".join(f"'{each}'" for each in line.split() if not each.startswith(f"{IMAGE}="))
    values = {"KERNEL": image, "INITRD": initrd, "UUID": uuid, "RUN": run, "VARIABLE": VARIABLE}
    values["PARAMETERS"] = parameters
    return re.sub("|".join(values), lambda match: values[match.group()], _TEXT)


def with_image(line: str, image: str) -> str:
    """The line with the name of another image in GRUB's parameter, if it is there."""
    present = cmdline.values(line).get(IMAGE, "")
    other = posixpath.join(posixpath.dirname(present), posixpath.basename(image))
    return line.replace(f"{IMAGE}={present}", f"{IMAGE}={other}", 1) if present else line


def check_block(block: bytes) -> str:
    """Why an environment block cannot take the variable; "" if it can."""
    used = block.rstrip(_FREE)
    if not used.startswith(_HEADER) or not used.endswith(b"\n"):
        return "it is not an environment block of GRUB"
    return "" if len(_without(block).rstrip(_FREE)) + len(_assignment("0" * 36)) <= len(block) else "it is full"


def _assignment(run: str) -> bytes:
    return f"{VARIABLE}={run}\n".encode()


def _without(block: bytes) -> bytes:
    lines = block.rstrip(_FREE).split(b"\n")
    rest = [line for line in lines if not line.startswith(f"{VARIABLE}=".encode())]
    return b"\n".join(rest).ljust(len(block), _FREE)


def arm(path: str, run: str) -> None:
    """Let GRUB start the entry of the run in the next boot. OSError if the block cannot take the variable."""
    block = owned.read(path)
    problem = check_block(block)
    if problem:
        raise OSError(errno.EINVAL, problem, path)
    _write(path, (_without(block).rstrip(_FREE) + _assignment(run)).ljust(len(block), _FREE))


def has_next_entry(path: str) -> bool:
    """Whether another entry is to start next, as grub-reboot lets it. GRUB would forget that in the boot of a run."""
    return re.search(rb"^next_entry=.", owned.read(path), re.MULTILINE) is not None


def disarm(path: str) -> None:
    """Remove the variable, if it is there. A missing or damaged block starts no entry either."""
    try:
        block = owned.read(path)
    except FileNotFoundError:
        return
    if f"\n{VARIABLE}=".encode() in block:
        _write(path, _without(block))


def _write(path: str, block: bytes) -> None:
    """In place, in one write: GRUB finds the blocks of a file without the journal of the file system, so that another
    file could be missing after a power cut, with the variables of the admin."""
    descriptor = owned.opened(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, block, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Grub(Loader):
    way, title = "grub", "GRUB"
    fields = ("directory", "uuid", "image", "initrd")

    def file(self, boot: Boot) -> str:
        return f"{boot['directory']}/{CUSTOM}"

    def entry(self, boot: Boot, run: str) -> str:
        return entry(run, boot["uuid"], boot["image"], boot["initrd"], boot["line"])

    def variable(self, boot: Boot) -> str:
        return f"{boot['directory']}/{ENVIRONMENT}"

    def setting(self, boot: Boot) -> list[str]:
        return ["grub-editenv", self.variable(boot), "set", f"{VARIABLE}=RUN"]

    def kernels(self, boot: Boot) -> str:
        return f"a kernel whose image and initial RAM disk are regular files in the file system of {boot['directory']}"

    def check_free(self, variable: str) -> None:
        if has_next_entry(variable):
            hint = f"restart the host, or run: grub-editenv {variable} unset next_entry"
            raise HostFailure("GRUB is to start another entry next, which the run would prevent", hint)

    def arm(self, variable: str, run: str) -> None:
        arm(variable, run)

    def disarm(self, variable: str) -> None:
        disarm(variable)
