"""How a host can boot with another command line, and why it cannot."""

from __future__ import annotations

import pytest

from agents.facts.boot import boot
from agents.host import cmdline
from agents.host.loaders import grub
from tests.agents.fakes import FakeSystem

UUID = "0a1b2c3d-1111-2222-3333-444455556666"
BLOCK = "# GRUB Environment Block\nsaved_entry=0\n".ljust(1024, "#")
GRUB = {
    cmdline.FILE: "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/sda2 ro",
    "/proc/self/mountinfo": "1 0 8:2 / / rw - xfs /dev/sda2 rw\n2 1 8:1 / /boot rw - ext4 /dev/sda1 rw\n",
    "/boot/grub2/grub.cfg": "source ${config_directory}/custom.cfg\n",
    "/boot/grub2/grubenv": BLOCK,
}
BOOTABLE = {
    "/run/systemd/system/x": "",
    "/sys/kernel/kexec_loaded": "0",
    "/proc/sys/kernel/kexec_load_disabled": "0",
    "/proc/sys/kernel/osrelease": "6.1",
    "/boot/vmlinuz-6.1": "",
    "/boot/initramfs-6.1.img": "",
    "/lib/modules/6.1/modules.dep": "",
    **GRUB,
}
NONE = {"image": "", "initrd": ""}
LINKS = {"/sys/dev/block/8:1": "../../block/sda/sda1", f"/dev/disk/by-uuid/{UUID}": "../../sda1"}


def changed(files: dict[str, str | None], links: dict[str, str] | None = None) -> FakeSystem:
    """The bootable host with other files; None removes one."""
    present = {name: text for name, text in {**BOOTABLE, **files}.items() if text is not None}
    return FakeSystem(present, links={**LINKS, **(links or {})})


def mounted(kind: str, root: str = "/") -> str:
    return f"1 0 8:2 / / rw - xfs /dev/sda2 rw\n2 1 8:1 {root} /boot rw - {kind} /dev/sda1 rw\n"


def test_the_image_of_the_running_kernel_and_its_place_in_grubs_file_system_are_facts() -> None:
    paths = {"image": "/boot/vmlinuz-6.1", "initrd": "/boot/initramfs-6.1.img"}
    inside = {"uuid": UUID, "image": "/vmlinuz-6.1", "initrd": "/initramfs-6.1.img"}

    assert boot(changed({})) == {
        "kexec": "/usr/bin/kexec",
        **paths,
        "problem": "",
        "grub": {"directory": "/boot/grub2", **inside, "problem": ""},
        "systemd_boot": {"directory": "", **NONE, "problem": "the host was not started by UEFI firmware"},
        "kernels": [
            {
                "release": "6.1",
                **paths,
                "grub": {"image": "/vmlinuz-6.1", "initrd": "/initramfs-6.1.img"},
                "systemd_boot": NONE,
            }
        ],
    }


def test_a_kernel_is_installed_if_it_has_an_image_an_initial_ram_disk_and_modules() -> None:
    others = {
        "/boot/vmlinuz-5.10": "",
        "/boot/initrd.img-5.10": "",
        "/lib/modules/5.10/modules.dep": "",
        "/boot/vmlinuz-0-rescue": "",
        "/boot/initramfs-0-rescue.img": "",
        "/lib/modules/4.19/modules.dep": "",
    }

    kernels = boot(changed({**others}))["kernels"]

    assert [each["release"] for each in kernels] == ["5.10", "6.1"]
    assert kernels[0] == {
        "release": "5.10",
        "image": "/boot/vmlinuz-5.10",
        "initrd": "/boot/initrd.img-5.10",
        "grub": {"image": "/vmlinuz-5.10", "initrd": "/initrd.img-5.10"},
        "systemd_boot": NONE,
    }


@pytest.mark.parametrize(
    ("files", "links"),
    [
        ({}, {"/boot/vmlinuz-6.1": "../usr/lib/modules/6.1/vmlinuz"}),
        ({"/proc/self/mountinfo": mounted("ext4").replace("/boot ", "/boot/grub2 ")}, {}),
    ],
    ids=["a link", "another mount"],
)
def test_a_kernel_that_grub_may_not_find_has_no_place_in_its_file_system(
    files: dict[str, str | None], links: dict[str, str]
) -> None:
    (kernel,) = boot(changed(files, links))["kernels"]

    assert kernel["grub"]["image"] == "" and kernel["image"] == "/boot/vmlinuz-6.1"


def test_a_kernel_in_the_root_file_system_has_its_whole_path() -> None:
    system = changed(
        {
            cmdline.FILE: "BOOT_IMAGE=(hd0,gpt1)/boot/vmlinuz-6.1 ro",
            "/proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n",
        }
    )

    assert boot(system)["grub"] == boot(changed({}))["grub"] | {
        "image": "/boot/vmlinuz-6.1",
        "initrd": "/boot/initramfs-6.1.img",
    }


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("/run/systemd/system/x", None, "systemd is not PID 1"),
        ("/run/systemd/container", "docker", "outside of containers"),
        ("/boot/vmlinuz-6.1", None, "/boot has no image"),
        ("/boot/initramfs-6.1.img", None, "/boot has no initrd"),
    ],
)
def test_a_host_that_can_boot_in_neither_way_says_why(path: str, text: str | None, problem: str) -> None:
    facts = boot(changed({path: text}))

    assert problem in facts["problem"] and facts["grub"]["problem"] == facts["problem"]


@pytest.mark.parametrize(("path", "text"), [("/run/systemd/system/x", None), ("/run/systemd/container", "docker")])
def test_a_container_cannot_boot_with_systemd_boot_either(path: str, text: str | None) -> None:
    facts = boot(changed({path: text}))

    assert facts["systemd_boot"]["problem"] == facts["problem"]


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("/sys/kernel/kexec_loaded", None, "built without kexec"),
        ("/proc/sys/kernel/kexec_load_disabled", "1", "remove it from sysctl.d"),
    ],
)
def test_a_host_that_cannot_boot_with_kexec_says_why(path: str, text: str | None, problem: str) -> None:
    facts = boot(changed({path: text}))

    assert problem in facts["problem"] and facts["grub"]["problem"] == ""


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("/boot/grub2/grub.cfg", None, "no grub.cfg is in /boot/grub or /boot/grub2"),
        ("/boot/grub2/grub.cfg", "menuentry x {}", "make /etc/grub.d/41_custom executable"),
        ("/boot/grub2/custom.cfg", "menuentry x {}", "/boot/grub2/custom.cfg exists"),
        ("/proc/self/mountinfo", mounted("btrfs"), "GRUB cannot write to /boot/grub2 on btrfs"),
        ("/proc/self/mountinfo", mounted("ext4", "/part"), "GRUB cannot write"),
        ("/sys/dev/block/8:1/dm/name", "root", "LVM, RAID or an encrypted device"),
        ("/sys/dev/block/8:1/md/level", "raid1", "LVM, RAID or an encrypted device"),
        ("/proc/self/mountinfo", mounted("ext4").replace("/boot ", "/boot/grub2 "), "not in the same file system"),
        (cmdline.FILE, "root=/dev/sda2 ro", "GRUB did not start /vmlinuz-6.1"),
        (cmdline.FILE, "BOOT_IMAGE=/vmlinuz-5.0 ro", "GRUB did not start /vmlinuz-6.1"),
        (cmdline.FILE, 'BOOT_IMAGE=/vmlinuz-6.1 dyndbg="file a +p"', "quotes or backslashes"),
        ("/boot/grub2/grubenv", None, "create it with grub-editenv"),
        ("/boot/grub2/grubenv", BLOCK.replace("#", "x=1\n")[:1024], "create it with grub-editenv"),
        ("/boot/grub2/grubenv", "# GRUB Environment Block\n".ljust(1000, "x") + "\n".ljust(24, "#"), "it is full"),
    ],
)
def test_a_host_whose_grub_cannot_start_an_entry_once_says_why(path: str, text: str | None, problem: str) -> None:
    facts = boot(changed({path: text}))

    assert problem in facts["grub"]["problem"] and facts["problem"] == ""


def test_a_file_that_an_earlier_run_left_does_not_count_as_the_admins() -> None:
    left = grub.entry("run", UUID, "/vmlinuz-6.1", "/initramfs-6.1.img", "ro")

    assert boot(changed({"/boot/grub2/custom.cfg": left}))["grub"]["problem"] == ""


def test_an_environment_block_behind_a_link_is_not_used() -> None:
    facts = boot(changed({}, {"/boot/grub2/grubenv": "../efi/grubenv"}))

    assert "it is a link" in facts["grub"]["problem"]
