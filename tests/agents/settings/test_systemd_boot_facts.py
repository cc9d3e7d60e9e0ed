"""When systemd-boot can start an entry of the agent once, and why it cannot."""

from __future__ import annotations

import pytest

from agents.facts.boot import boot
from agents.host.loaders import LOADERS
from agents.host.loaders.systemd_boot import NAME, ONE_SHOT, VARIABLES, path_of
from tests.agents.booting_systemd_boot import INFO, PARTITION, variable_of
from tests.agents.fakes import FakeSystem

ENTRIES = "/efi/loader/entries"
ENTRY = (
    "# written by kernel-install\ntitle\tDebian\nversion    6.1\nsort-key   debian\noptions    ro quiet\n"
    "linux      /debian/6.1/linux\ninitrd     /microcode\ninitrd     \\debian\\6.1\\initrd\n"
)
OTHER = "title Debian\nversion 6.12\nlinux /debian/6.12/linux\ninitrd /debian/6.12/initrd\n"
MOUNTS = (
    "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 8:1 / /efi rw - vfat /dev/sda1 rw\n"
    f"3 1 0:9 / {VARIABLES} rw - efivarfs none rw\n"
)
DISK = "../../devices/pci0000:00/block/sda"
LINKS = {
    "/sys/dev/block/8:1": f"{DISK}/sda1",
    "/sys/class/block/sda1": f"{DISK}/sda1",
    f"/dev/disk/by-partuuid/{PARTITION.lower()}": "../../sda1",
}


def variable(text: str) -> str:
    return variable_of(text).decode()


LOADED = {
    path_of("LoaderInfo"): variable(INFO),
    path_of("LoaderEntrySelected"): variable("debian-6.1.conf"),
    path_of("LoaderDevicePartUUID"): variable(PARTITION),
}
BOOTABLE = {
    "/run/systemd/system/x": "",
    "/proc/sys/kernel/osrelease": "6.1",
    "/proc/self/mountinfo": MOUNTS,
    "/lib/modules/6.1/modules.dep": "",
    "/lib/modules/6.12/modules.dep": "",
    "/efi/debian/6.1/linux": "",
    "/efi/debian/6.1/initrd": "",
    "/efi/microcode": "",
    f"{ENTRIES}/debian-6.1.conf": ENTRY,
    **LOADED,
}


def changed(files: dict[str, str | None], links: dict[str, str] | None = None) -> FakeSystem:
    """The bootable host with other files; None removes one."""
    present = {name: text for name, text in {**BOOTABLE, **files}.items() if text is not None}
    return FakeSystem(present, links=LINKS if links is None else links)


def test_the_partition_and_the_files_of_the_running_kernel_are_facts() -> None:
    facts = boot(changed({}))

    files = {"image": "/debian/6.1/linux", "initrd": "/microcode /debian/6.1/initrd"}
    assert facts["systemd_boot"] == {"directory": "/efi", **files, "problem": ""}
    assert "/boot has no image" in facts["problem"]


def test_a_kernel_is_installed_if_it_has_an_entry_of_its_version_with_all_files() -> None:
    others = {f"{ENTRIES}/debian-6.12.conf": OTHER, f"{ENTRIES}/gone.conf": OTHER.replace("6.12", "6.6")}
    files = dict.fromkeys(("/efi/debian/6.12/linux", "/efi/debian/6.12/initrd", "/lib/modules/6.6/modules.dep"), "")

    kernels = {each["release"]: each for each in boot(changed({**others, **files}))["kernels"]}

    assert list(kernels) == ["6.1", "6.12"]
    assert kernels["6.12"]["image"] == kernels["6.12"]["grub"]["image"] == ""
    assert kernels["6.12"]["systemd_boot"] == {"image": "/debian/6.12/linux", "initrd": "/debian/6.12/initrd"}


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("/proc/self/mountinfo", MOUNTS.replace("efivarfs none rw", "efivarfs none ro"), "not mounted, or read-only"),
        ("/proc/self/mountinfo", MOUNTS.replace(VARIABLES, "/mnt"), "not mounted, or read-only"),
        (path_of("LoaderInfo"), None, "its boot loader is unknown"),
        (path_of("LoaderInfo"), variable("GRUB 2.12"), "its boot loader is GRUB 2.12"),
        (path_of("LoaderInfo"), variable("systemd-boot 249.11"), "update it to 250 or later"),
        (path_of("LoaderEntrySelected"), variable("debian.efi"), "unified kernel images are not supported"),
        (path_of("LoaderEntrySelected"), variable("../debian.conf"), "unified kernel images are not supported"),
        (path_of("LoaderEntrySelected"), None, "an unknown entry"),
        (f"{ENTRIES}/debian-6.1.conf", None, "is not below /boot, /efi, /boot/efi: mount its partition there"),
        (f"{ENTRIES}/debian-6.1.conf", f"{ENTRY}devicetree /a.dtb\n", "has devicetree, which the agent's entry cannot"),
        (f"{ENTRIES}/debian-6.1.conf", "title x\nefi /EFI/Linux/x.efi\n", "has efi, which"),
        (f"{ENTRIES}/debian-6.1.conf", "linux /debian/6.1/linux\n", "the image or initial RAM disk of the entry"),
        ("/efi/microcode", None, "/microcode of the entry debian-6.1.conf is not in /efi"),
        ("/lib/modules/6.1/modules.dep", None, "restart the host if its kernel was upgraded"),
        (f"{ENTRIES}/-last.conf", "", "-last.conf would come after the agent's entry"),
        (f"{ENTRIES}/_~last.conf", "", "_~last.conf would come after the agent's entry"),
        (f"{ENTRIES}/{NAME}", "title Rescue\n", "exists: rename it"),
        ("/proc/self/mountinfo", MOUNTS.replace("vfat", "ext4"), "/efi is not a mounted partition with vfat"),
        ("/proc/self/mountinfo", MOUNTS.replace(" /efi ", " /mnt "), "/efi is not a mounted partition with vfat"),
        ("/proc/self/mountinfo", MOUNTS.replace("/efi rw", "/efi ro"), "/efi is mounted read-only"),
        (path_of("LoaderDevicePartUUID"), None, "not on the disk from which systemd-boot started"),
    ],
)
def test_a_host_whose_systemd_boot_cannot_start_an_entry_once_says_why(
    path: str, text: str | None, problem: str
) -> None:
    assert problem in boot(changed({path: text}))["systemd_boot"]["problem"]


def test_a_partition_of_another_disk_is_not_used() -> None:
    links = {**LINKS, "/sys/dev/block/8:1": "../../devices/pci0000:00/block/sdb/sdb1"}
    links["/sys/class/block/sdb1"] = links["/sys/dev/block/8:1"]

    facts = boot(changed({}, links))

    assert "not on the disk" in facts["systemd_boot"]["problem"]


def test_a_boot_partition_on_the_disk_of_the_efi_system_partition_is_used() -> None:
    links = {**LINKS, "/sys/dev/block/8:1": f"{DISK}/sda3", "/sys/class/block/sda3": f"{DISK}/sda3"}

    assert boot(changed({}, links))["systemd_boot"]["problem"] == ""


@pytest.mark.parametrize("name", ["0-first.conf", "zz.conf", "a.conf", "_x-1.conf", NAME])
def test_an_entry_of_another_name_comes_before_the_agents(name: str) -> None:
    left = LOADERS["systemd-boot"].entry({"image": "/linux", "initrd": "/initrd", "line": "ro"}, "run")

    assert boot(changed({f"{ENTRIES}/{name}": left}))["systemd_boot"]["problem"] == ""


def test_the_entry_has_every_initial_ram_disk_and_not_the_parameters_that_systemd_boot_adds() -> None:
    line = 'initrd=\\microcode initrd=\\initrd root=/dev/sda2 dyndbg="file a +p" initrd=kept -- single'

    text = LOADERS["systemd-boot"].entry({"image": "/linux", "initrd": "/microcode /initrd", "line": line}, "RUN")

    assert text.splitlines()[1:] == [
        "title Proving Ground",
        "linux /linux",
        "initrd /microcode",
        "initrd /initrd",
        'options root=/dev/sda2 dyndbg="file a +p" initrd=kept -- single',
    ]
    assert ONE_SHOT not in text
