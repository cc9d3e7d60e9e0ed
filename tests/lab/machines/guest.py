"""Packages, files and commands of the guest. A change here rebuilds the image."""

from __future__ import annotations

RELEASE = "bookworm"
USER = "bench"
PACKAGES = (
    *("systemd", "systemd-sysv", "udev", "dbus", "kmod", "linux-image-cloud-amd64", "initramfs-tools", "zstd"),
    *("openssh-server", "sudo", "python3", "iproute2", "iputils-ping", "procps", "util-linux", "psmisc", "less"),
    *(
        "postgresql-15",
        "postgresql-contrib",
        "fio",
        "sysbench",
        "numactl",
        "sysstat",
        "strace",
        "linux-perf",
        "bpftrace",
        "kexec-tools",
        "grub-pc-bin",
        "grub2-common",
        "fdisk",
        "dosfstools",
    ),
)
# Written before the packages are installed.
FIRST = {
    "etc/apt/apt.conf.d/90lab": 'APT::Install-Recommends "false"; Acquire::Languages "none"; Acquire::Retries "3";\n',
    "etc/dpkg/dpkg.cfg.d/90lab": "path-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\n"
    "path-exclude=/usr/share/locale/*\n",
    # The cluster 15/main exists, but never starts by itself.
    "etc/postgresql-common/createcluster.conf": "start_conf = 'manual'\n",
    "etc/initramfs-tools/conf.d/lab": "MODULES=list\nCOMPRESS=zstd\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
    "etc/kernel-img.conf": "do_symlinks = no\n",
    "etc/hostname": "lab\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 lab\n::1 localhost\n",
}
SYSTEMD_BOOT = "/opt/systemd-boot"  # has packages whose installation would change the other machines
DOWNLOAD_SYSTEMD_BOOT = (
    f"mkdir {SYSTEMD_BOOT} && cd {SYSTEMD_BOOT} && apt-get -q download systemd-boot systemd-boot-efi"
)
NO_SERVICES = "usr/sbin/policy-rc.d"  # while the image is built
OTHER_KERNEL = "/opt/other-kernel"  # has the package of another kernel, or nothing if the mirror has none
DOWNLOAD_OTHER_KERNEL = f"""
mkdir {OTHER_KERNEL} && cd {OTHER_KERNEL} &&
apt-cache --names-only search '^linux-image-[0-9]+[.][0-9]+[.].*-cloud-amd64$' | cut -d' ' -f1 |
grep -vx "linux-image-$(ls /lib/modules)" | sort -V | tail -n 1 | xargs -r apt-get -q download
"""
COMMANDS = (
    ("useradd", "--create-home", "--shell", "/bin/bash", "--groups", "sudo,systemd-journal", USER),
    ("systemctl", "enable", "systemd-networkd"),
    ("systemctl", "disable", "systemd-networkd-wait-online"),
    # A benchmark host does nothing by itself.
    (
        *("systemctl", "mask", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer"),
        *("e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer"),
    ),
)
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
# Written last.
FILES = {
    f"etc/sudoers.d/{USER}": f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n",
    "etc/ssh/sshd_config.d/lab.conf": "PermitRootLogin no\nPasswordAuthentication no\n"
    f"KbdInteractiveAuthentication no\nUseDNS no\nHostKey {HOST_KEY}\n",
    # Each machine makes its own key at first boot.
    "etc/systemd/system/ssh.service.d/hostkey.conf": "[Service]\nExecStartPre=\n"
    f"ExecStartPre=/bin/sh -c 'test -s {HOST_KEY} || ssh-keygen -q -t ed25519 -N \"\" -f {HOST_KEY}'\n"
    "ExecStartPre=/usr/sbin/sshd -t\n",
    "etc/systemd/network/lab.network": "[Match]\nType=ether\n[Network]\nAddress=10.0.2.15/24\nLinkLocalAddressing=no\n",
    "etc/fstab": "LABEL=root / ext4 noatime,x-systemd.growfs 0 1\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/resolv.conf": "",
    "etc/machine-id": "",
}
