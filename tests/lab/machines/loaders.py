"""Boot loaders of machines that boot from their own disks, and how each is installed in a machine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.lab.machines import guest
from tests.lab.machines.lab import LabError

FIRMWARE = Path("/usr/share/OVMF")
CODE, VARIABLES = FIRMWARE / "OVMF_CODE_4M.fd", FIRMWARE / "OVMF_VARS_4M.fd"
ESP_SIZE = "512M"


@dataclass(frozen=True)
class Loader:
    """`install` gets `defaults` on its standard input, with the parameters of the kernel that other machines get from
    the emulator."""

    title: str
    defaults: str
    install: str
    is_uefi: bool = False  # with a second disk, for the EFI system partition

    def check(self) -> None:
        if self.is_uefi and not CODE.exists():
            raise LabError(f"{self.title} needs {CODE}: apt-get install ovmf")

    def firmware(self, state: Path) -> list[str]:
        """Arguments of QEMU: the firmware, its variables, which outlast a power cut, and the second disk."""
        if not self.is_uefi:
            return []
        variables, disk = state / "variables.fd", state / "esp.raw"
        if not disk.exists():
            shutil.copy(VARIABLES, variables)
            with disk.open("wb") as file:
                file.truncate(int(ESP_SIZE.removesuffix("M")) << 20)
        return [
            *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={CODE}"),
            *("-drive", f"if=pflash,unit=1,format=raw,file={variables}"),
            *("-drive", f"file={disk},format=raw,if=none,id=esp,cache=none"),
            *("-device", "virtio-blk-pci,drive=esp,bootindex=1"),
        ]


LOADERS = {
    "grub": Loader(
        "GRUB",
        'GRUB_DEFAULT=0\nGRUB_TIMEOUT=1\nGRUB_TERMINAL=serial\nGRUB_CMDLINE_LINUX="{parameters}"\n',
        "sudo tee /etc/default/grub > /dev/null && sudo grub-install /dev/vda && sudo update-grub && sudo sync",
    ),
    # Debian's packages install the loader, copy the kernel to the partition, and write its entry, debian-RELEASE.conf.
    # Without a default and a key to sort by, the order of names alone decides which entry is the default.
    "systemd-boot": Loader(
        "systemd-boot",
        "root=/dev/vda rw {parameters}\n",
        "sudo tee /etc/kernel/cmdline > /dev/null && echo debian | sudo tee /etc/kernel/entry-token > /dev/null && "
        "sudo mkdir -p /boot/efi && "
        "echo 'label: gpt\ntype=uefi' | sudo sfdisk --quiet /dev/vdb && "
        "sudo udevadm settle && sudo mkfs.vfat -n ESP /dev/vdb1 > /dev/null && "
        "echo 'LABEL=ESP /boot/efi vfat umask=0077 0 2' | sudo tee -a /etc/fstab > /dev/null && "
        f"sudo mount /boot/efi && sudo dpkg -i {guest.SYSTEMD_BOOT}/*.deb && "
        "sudo kernel-install add $(uname -r) /boot/vmlinuz-$(uname -r) /boot/initrd.img-$(uname -r) && "
        "sudo sh -c 'sed -i /^default/d /boot/efi/loader/loader.conf && "
        "sed -i /^sort-key/d /boot/efi/loader/entries/*.conf && sync'",
        is_uefi=True,
    ),
}
